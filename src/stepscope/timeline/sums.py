"""What is in a window, by name: how often, how long together, the longest, and the time that any of them takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.core.intervals import total, union
from stepscope.core.run import Run
from stepscope.timeline.content import Category, Spans
from stepscope.timeline.contents import chosen
from stepscope.timeline.frame import inside
from stepscope.timeline.lanes import Ints

__all__ = ["NameSum", "Sums", "sums"]

MOST_ROWS = 200  # by their sums; how many there are is told
MOST_UNIONS = 500_000  # spans of which unions are made: half a second; of more only the sums are told


@dataclass(frozen=True, slots=True)
class NameSum:
    """The spans of a name that touch a window, each clipped to it. Times in ns.

    `sum` counts time twice in which two of them run, `union` once; None: not computed, there are too many spans.
    """

    name: str
    category: Category
    count: int
    sum: int
    longest: int
    union: int | None


@dataclass(frozen=True, slots=True)
class Sums:
    """Rows by descending sum, of `names` in all; `spans` touch the window."""

    spans: int
    names: int
    rows: tuple[NameSum, ...]


def sums(run: Run, window: tuple[int, int], tracks: Sequence[str] | None = None) -> Sums:
    """The spans of the named tracks, or of all, that touch a window, by name and category."""
    pieces = list(_pieces(run, window, tracks))
    numbers: dict[tuple[str, Category], int] = {}
    for content, codes, *_ in pieces:
        for code in np.unique(codes).tolist():
            numbers.setdefault((content.names[code], content.categories[code]), len(numbers))
    name = np.concatenate([_numbered(content, numbers)[codes] for content, codes, *_ in pieces] or [np.zeros(0, int)])
    start, end = (np.concatenate([piece[k] for piece in pieces] or [np.zeros(0, int)]) for k in (2, 3))
    count, longest = np.bincount(name, minlength=len(numbers)), np.zeros(len(numbers), dtype=np.int64)
    summed = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(summed, name, end - start)
    np.maximum.at(longest, name, end - start)
    assert int(count.sum()) == len(name)
    rows = np.argsort(-summed, kind="stable")[:MOST_ROWS].tolist()
    unions = _unions(name, start, end, rows) if len(name) <= MOST_UNIONS else {}
    keys = list(numbers)
    found = (
        NameSum(keys[k][0], keys[k][1], int(count[k]), int(summed[k]), int(longest[k]), unions.get(k)) for k in rows
    )
    return Sums(len(name), len(numbers), tuple(found))


def _pieces(
    run: Run, window: tuple[int, int], tracks: Sequence[str] | None
) -> Iterator[tuple[Spans, Ints, Ints, Ints]]:
    """Of each lane the numbers of names, starts and ends of the spans that touch the window, clipped to it."""
    for content in chosen(run, tracks):
        if not isinstance(content, Spans):
            continue
        for lane in content.lanes:
            first, last = inside(lane, *window)
            if last > first:
                start = np.maximum(lane.start[first:last], window[0])
                yield (
                    content,
                    lane.name[first:last].astype(np.int64),
                    start,
                    np.minimum(lane.end[first:last], window[1]),
                )


def _numbered(content: Spans, numbers: dict[tuple[str, Category], int]) -> Ints:
    pairs = zip(content.names, content.categories, strict=True)
    return np.array([numbers.get(pair, -1) for pair in pairs], dtype=np.int64)


def _unions(name: Ints, start: Ints, end: Ints, rows: Sequence[int]) -> dict[int, int]:
    """The time that any span of each name takes."""
    order = np.argsort(name, kind="stable")
    edges = np.searchsorted(name[order], np.arange(int(name.max(initial=-1)) + 2))
    spans = np.stack((start, end), axis=1)[order]
    return {row: total(union(spans[edges[row] : edges[row + 1]])) for row in rows}
