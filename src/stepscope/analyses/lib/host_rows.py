"""Rows of `host` by kind and name: each of these is asked once, however many rows have it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import categories, enumerated, host_names
from stepscope.core.run import Run

__all__ = ["HostRows", "host_rows", "host_where"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """A column of texts: for each row the place of its text in `distinct`, which ends with null."""

    distinct: pl.Series
    place: npt.NDArray[np.int64]

    def passing(self, test: pl.Expr) -> Bools:
        return self.among(self.distinct.to_frame().select(test.fill_null(False)).to_series().to_numpy())

    def among(self, passed: Bools) -> Bools:
        """The rows whose text passed: whether each of `distinct` did."""
        if not passed.any():
            return np.zeros(len(self.place), dtype=np.bool_)
        found: Bools = passed[self.place]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class HostRows:
    """The rows of `host`."""

    kinds: _Texts
    names: _Texts

    def of_kind(self, *kinds: str) -> Bools:
        """The rows of some kinds."""
        return self.kinds.among(np.array([kind in kinds for kind in self.kinds.distinct.to_list()], dtype=np.bool_))

    def named(self, test: pl.Expr) -> Bools:
        """The rows whose name passes a test of the column `name`."""
        return self.names.passing(test)

    def where(self, kinds: Sequence[str] | None, test: pl.Expr) -> pl.Expr:
        """A test for `run.where`: the name passes a test, and the kind is one of some, or any."""
        names = self.names.distinct.to_frame().filter(test).to_series()
        return _of_kinds(kinds, pl.col("name").is_in(names.implode()))


def host_rows(run: Run) -> HostRows:
    """Kinds and names of the table `host`, which is read for them."""
    return run.once(_host_rows)


def host_where(run: Run, kinds: Sequence[str] | None, test: pl.Expr, *columns: str) -> pl.DataFrame:
    """As `run.where`, of the rows of `host` whose name passes a test; of some kinds, or of any without `kinds`.

    Nothing more is read for it. Where the test is a long one, let `host_rows` read the names first.
    """
    if not run.holds("host", "kind", "name"):
        return run.where("host", _of_kinds(kinds, test), *columns)
    rows = host_rows(run)
    if not run.holds("host", *columns):
        return run.where("host", rows.where(kinds, test), *columns)
    passing = rows.named(test) if kinds is None else rows.of_kind(*kinds) & rows.named(test)
    return run.optional("host", *columns).filter(passing)


def _of_kinds(kinds: Sequence[str] | None, test: pl.Expr) -> pl.Expr:
    return test if kinds is None else pl.col("kind").is_in(kinds) & test


def _host_rows(run: Run) -> HostRows:
    return HostRows(_texts(enumerated(run.optional("host", "kind")["kind"])), _texts(host_names(run)))


def _texts(coded: pl.Series) -> _Texts:
    distinct = categories(coded)
    place = coded.to_physical().fill_null(len(distinct)).cast(pl.Int64).to_numpy()
    return _Texts(distinct.rename(coded.name).extend_constant(None, 1), place)
