"""What is asked of the names of kernels."""

import polars as pl

from stepscope.core.kernels import name_test


def test_name_test_asks_once_per_distinct_name() -> None:
    asked: list[str] = []

    def test(name: str) -> bool:
        asked.append(name)
        return name == "a"

    assert name_test(pl.Series(["a", "b", "a", None], dtype=pl.String), test).to_list() == [True, False, True, False]
    assert sorted(asked) == ["a", "b"]
