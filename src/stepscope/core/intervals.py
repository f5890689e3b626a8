"""Sets of time as sorted, disjoint [start, end) rows of an (n, 2) int64 array; touching spans are one."""

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.native import _scanner

__all__ = [
    "Bools",
    "Spans",
    "clip",
    "intersect",
    "near",
    "overlap_each",
    "spans",
    "subtract",
    "total",
    "union",
    "within",
]

Spans = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def spans(frame: pl.DataFrame, start: str = "start", end: str = "end") -> Spans:
    """The (n, 2) array of two columns of a table; not yet a set."""
    return np.stack((frame[start].to_numpy(), frame[end].to_numpy()), axis=1).astype(np.int64, copy=False)


def union(a: Spans) -> Spans:
    """Merge spans that touch or overlap; drop empty ones. What is a set already is returned as it is."""
    merged = _scanner.union(_in_rows(a))
    return a if merged is None else _spans_in(merged)


def subtract(a: Spans, b: Spans) -> Spans:
    """Return the time in `a` and not in `b`."""
    return _spans_in(_scanner.subtract(_in_rows(union(a)), _in_rows(union(b))))


def intersect(a: Spans, b: Spans) -> Spans:
    """Return the time in both `a` and `b`."""
    return _spans_in(_scanner.intersect(_in_rows(union(a)), _in_rows(union(b))))


def clip(a: Spans, start: int, end: int) -> Spans:
    """Return the time of `a` in [start, end)."""
    return union(np.stack((np.maximum(a[:, 0], start), np.minimum(a[:, 1], end)), axis=1))


def total(a: Spans) -> int:
    """Length in ns of a set; of spans that overlap, the sum."""
    return int((a[:, 1] - a[:, 0]).sum())


def near(a: Spans, b: Spans) -> Spans:
    """Return the spans of set `a` that begin before set `b` ends and end after it begins: of a long trace often few."""
    if not len(b):
        return a[:0]
    return a[np.searchsorted(a[:, 1], b[0, 0], side="right") : np.searchsorted(a[:, 0], b[-1, 1])]


def within(windows: Spans, a: Spans) -> Bools:
    """For each window (they may overlap), whether it lies in one span of the set `a`."""
    if not len(a):
        return np.zeros(len(windows), dtype=np.bool_)
    at = np.searchsorted(a[:, 0], windows[:, 0], side="right") - 1
    found: Bools = (at >= 0) & (windows[:, 1] <= a[np.maximum(at, 0), 1])
    return found


def overlap_each(windows: Spans, a: Spans) -> npt.NDArray[np.int64]:
    """For each window (they may overlap), the time in ns that it shares with the union of `a`."""
    shared = np.empty(len(windows), dtype=np.int64)
    _scanner.overlap_each(_in_rows(windows), _in_rows(union(a)), shared)
    return shared


def _in_rows(a: Spans) -> Spans:
    """The same as the compiled loops read it, one span after the other."""
    return np.ascontiguousarray(a, dtype=np.int64)


def _spans_in(rows: bytearray) -> Spans:
    return np.frombuffer(rows, dtype=np.int64).reshape(-1, 2)
