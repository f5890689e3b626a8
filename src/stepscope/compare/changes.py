"""What changed between two runs, name by name: parts of a whole that add up to its change, and rows by name.

Rows are matched by name; of what is left on both sides, rows whose names are alike without template
arguments and numbers are summed up and matched; the rest appeared or vanished.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from stepscope.compare.by_name import Row
from stepscope.compare.names import short_name
from stepscope.compare.series import Division

__all__ = ["Change", "Changes", "Match", "by_difference", "divided_changes", "listed_changes", "with_shares"]

SMALLEST = 0.01  # of the larger whole: shares of a change that is smaller would be of nothing but rounding and noise
LEFT = 0.1  # of all that the rows moved: where more cancels out, shares of the rest are of hundreds of per cent
Match = Literal["name", "short name", "appeared", "vanished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A part or row on both sides: ns and calls per step, None on a side without it.

    `share` is the part of the change of the whole that this one makes up, None where that hardly changed, or where rows
    cancel each other out nearly.
    `matched` says by what the sides were matched, or that there is one side only.
    """

    name: str
    a: int | None
    b: int | None
    share: float | None
    calls_a: float | None = None
    calls_b: float | None = None
    matched: Match = "name"

    @property
    def difference(self) -> int:
        """B less A in ns per step; a side without it counts as 0."""
        return (self.b or 0) - (self.a or 0)

    @property
    def ratio(self) -> float | None:
        """B over A; None if either side lacks it or A is 0."""
        return self.b / self.a if self.a and self.b is not None else None


SomeChange = TypeVar("SomeChange", bound=Change)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Parts or rows of one kind, and what they add up to in ns per step.

    Parts of a division keep its order; rows come with the largest difference first. `wholes` are the two sides in ns
    of what shares are of the change of, 0 where that is unknown.
    """

    a: int
    b: int
    rows: tuple[Change, ...]
    wholes: tuple[int, int]


def divided_changes(a: Division, b: Division) -> Changes:
    """The parts of two divisions. Their differences add up to that of the wholes exactly."""
    rows = []
    for name in (*a.parts, *(name for name in b.parts if name not in a.parts)):
        before, after = a.parts.get(name), b.parts.get(name)
        rows.append(Change(name=name, a=before, b=after, share=None, matched=_matched(before, after)))
    assert sum(row.difference for row in rows) == b.whole - a.whole
    return Changes(a=a.whole, b=b.whole, rows=with_shares(rows, (a.whole, b.whole)), wholes=(a.whole, b.whole))


def listed_changes(a: Mapping[str, Row], b: Mapping[str, Row], wholes: tuple[int, int]) -> Changes:
    """The rows of two runs by name; `wholes` are the lengths of a traced step in ns, whose change shares are of."""
    left, right = dict(a), dict(b)
    rows = [_change(name, left.pop(name), right.pop(name), "name") for name in sorted({*left} & {*right})]
    shorter_left, shorter_right = _shortened(left), _shortened(right)
    for short in sorted({*shorter_left} & {*shorter_right}):
        one = _added(left.pop(name) for name in shorter_left[short])
        two = _added(right.pop(name) for name in shorter_right[short])
        rows.append(_change(short, one, two, "short name"))
    rows += [_change(name, row, None, "vanished") for name, row in left.items()]
    rows += [_change(name, None, row, "appeared") for name, row in right.items()]
    sums = (round(sum(time for _, time in side.values())) for side in (a, b))
    return Changes(a=next(sums), b=next(sums), rows=with_shares(by_difference(rows), wholes), wholes=wholes)


def by_difference(rows: Iterable[SomeChange]) -> list[SomeChange]:
    """Rows with the largest difference first."""
    return sorted(rows, key=lambda row: (-abs(row.difference), row.name, row.matched))


def with_shares(rows: Sequence[SomeChange], wholes: tuple[int, int]) -> tuple[SomeChange, ...]:
    """The rows with their shares of the change of the whole, if that is large enough for a share to say anything."""
    change, moved = wholes[1] - wholes[0], sum(abs(row.difference) for row in rows)
    if abs(change) < max(SMALLEST * max(*wholes, 1), LEFT * moved):
        return tuple(rows)
    return tuple(replace(row, share=row.difference / change) for row in rows)


def _added(rows: Iterable[Row]) -> Row:
    calls, times = zip(*rows, strict=True)
    return sum(calls), sum(times)


def _shortened(rows: Mapping[str, Row]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name in rows:
        names.setdefault(short_name(name), []).append(name)
    return names


def _change(name: str, a: Row | None, b: Row | None, matched: Match) -> Change:
    before, after = (None if row is None else round(row[1]) for row in (a, b))
    return Change(
        name=name,
        a=before,
        b=after,
        share=None,
        calls_a=None if a is None else a[0],
        calls_b=None if b is None else b[0],
        matched=matched,
    )


def _matched(a: int | None, b: int | None) -> Match:
    if a is None and b is not None:
        return "appeared"
    return "vanished" if b is None and a is not None else "name"
