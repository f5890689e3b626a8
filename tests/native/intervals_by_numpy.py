"""The algebra of intervals by numpy: what the compiled one is held against."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from stepscope.core.intervals import Bools, Spans, near


def union(a: Spans) -> Spans:
    lasting = a[:, 1] > a[:, 0]
    if not lasting.all():
        a = a[lasting]
    if not len(a) or (a[1:, 0] > a[:-1, 1]).all():
        return a
    a = a[np.argsort(a[:, 0], kind="stable")]
    ends = np.maximum.accumulate(a[:, 1])
    first = np.concatenate(([True], a[1:, 0] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.stack((a[first, 0], ends[last]), axis=1)


def subtract(a: Spans, b: Spans) -> Spans:
    a, b = union(a), union(b)
    return _where(a, near(b, a), lambda in_a, in_b: in_a & ~in_b)


def intersect(a: Spans, b: Spans) -> Spans:
    a, b = union(a), union(b)
    return _where(near(a, b), near(b, a), lambda in_a, in_b: in_a & in_b)


def overlap_each(windows: Spans, a: Spans) -> npt.NDArray[np.int64]:
    merged = union(a)
    if not len(merged):
        return np.zeros(len(windows), dtype=np.int64)
    covered = np.concatenate(([0], np.cumsum(merged[:, 1] - merged[:, 0])))

    def until(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Time of `merged` before each of `times`."""
        after = np.searchsorted(merged[:, 0], times, side="right")
        last = np.maximum(after - 1, 0)
        inside = np.clip(times - merged[last, 0], 0, merged[last, 1] - merged[last, 0])
        before: npt.NDArray[np.int64] = np.where(after > 0, covered[last] + inside, 0)
        return before

    inside: npt.NDArray[np.int64] = np.maximum(until(windows[:, 1]) - until(windows[:, 0]), 0)
    return inside


def _where(a: Spans, b: Spans, keep: Callable[[Bools, Bools], Bools]) -> Spans:
    edges = np.concatenate((a.ravel(), b.ravel()))
    if not len(edges):
        return np.empty((0, 2), dtype=np.int64)
    order = np.argsort(edges, kind="stable")  # two sorted runs: one merge
    edges, of_a, begins = edges[order], order < a.size, order % 2 == 0
    starts, ends = edges[:-1], edges[1:]
    inside = (ends > starts) & keep(_covered(of_a, begins), _covered(~of_a, begins))
    return union(np.stack((starts[inside], ends[inside]), axis=1))


def _covered(own: Bools, begins: Bools) -> Bools:
    """Between each edge and the next, whether the set covers the time; `own` are its edges."""
    change = np.where(begins, np.int8(1), np.int8(-1))
    covered: Bools = np.cumsum(np.where(own, change, np.int8(0)), dtype=np.int8)[:-1] > 0
    return covered
