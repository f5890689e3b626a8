"""Samples of a comprehension count for the function around it."""

import polars as pl

from stepscope.analyses.host.lib.comprehensions import with_comprehensions


def _samples(*rows: tuple[str | None, int | None, str | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"file": pl.String, "line": pl.Int64, "function": pl.String}, orient="row")


def test_a_comprehension_counts_for_the_function_around_or_beside_it() -> None:
    given = _samples(
        ("train.py", 16, "features"), ("train.py", 17, "features"), ("train.py", 18, "<listcomp>"),
        ("train.py", 33, "main"), ("train.py", 34, "<listcomp>"), ("train.py", 38, "main"),
        ("train.py", 60, "<genexpr>"), ("other.py", 17, "<listcomp>"), (None, None, None),
    )  # fmt: skip
    told = with_comprehensions(given)["function"].to_list()
    assert told == ["features", "features", "features", "main", "main", "main", "<genexpr>", "<listcomp>", None]


def test_the_innermost_function_is_taken_and_without_comprehensions_nothing_changes() -> None:
    nested = _samples(("a.py", 10, "outer"), ("a.py", 20, "inner"), ("a.py", 21, "<lambda>"), ("a.py", 30, "outer"))
    assert with_comprehensions(nested)["function"].to_list() == ["outer", "inner", "inner", "outer"]
    plain = nested.filter(pl.col("function") != "<lambda>")
    assert with_comprehensions(plain).equals(plain)
