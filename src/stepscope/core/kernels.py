"""Names of kernels, of which a trace has millions of rows and some hundred different ones."""

from collections.abc import Callable

import polars as pl

__all__ = ["name_test"]


def name_test(names: pl.Series, test: Callable[[str], bool]) -> pl.Series:
    """Return `test(name)` for each name, asking once per distinct name."""
    distinct = names.drop_nulls().unique()
    passed = [name for name in distinct.to_list() if test(name)]
    return names.is_in(passed).fill_null(False)
