"""Names of kernels, of which a trace has millions of rows and some hundred different ones."""

from collections.abc import Callable

import polars as pl

__all__ = ["name_test"]


def name_test(names: pl.Series, test: Callable[[str], bool]) -> pl.Series:
    """Return `test(name)` for each name, asking once per distinct name."""
    passed = [name for name in names.unique().to_list() if name is not None and test(name)]
    if not passed:  # of most tables, and a good deal faster
        return pl.Series(names.name, [False]).new_from_index(0, len(names))
    return names.is_in(passed).fill_null(False)
