"""Steps of a long run, each merged with those most like it, so that ten million fit where one million do.

All merged rows stand for the same number of steps, so that means, shares and percentiles over rows are those over
steps. A row is the mean of steps of nearly one length, of one kind, that ran about the same time; it has the number and
the start of one of them, evenly spaced among those of the kind, so that the distance of stalls is a multiple of what it
was. Ordinary steps are one kind; those that are long, or have tags of their own, are others. The few that are left over
of each kind are merged with each other, longest first: the sum of all times stays what it was. Steps beside a trace,
and the first ones, stay alone: averages leave them out.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.importers.run_dir.rows import joined, picked
from stepscope.run_format.records import FLAG_TRACED, FLAG_TRACING

__all__ = ["ALONE_KIND", "PARTS", "Merged", "StepMerger", "kinds_of", "merge_alike", "nearest_steps"]

Rows = npt.NDArray[np.void]
Times = npt.NDArray[np.int64]

PARTS = ("data_wait", "forward", "backward", "optimizer", "other")
UNUSUAL = 1.5  # times the median: what the search for stalls calls long is longer
ALONE = 3  # first steps of a process, which are warm-up
BLOCKS = 256  # rows that are made of steps of about the same time: enough to keep the hundredth part of them
MOST_UNUSUAL = 1 << 18  # steps that are kept until the end; more are no exceptions
_APART = FLAG_TRACED | FLAG_TRACING
_MEANS = (*PARTS[1:], "evaluation_wait", "gc", "micro_batches")
_KNOWN_MEANS = ("data_wait", "samples", "device")  # negative: not known
_KINDS = len(PARTS) + 1
_KNOWN_FLAGS = 0xFFFF
ALONE_KIND = -1


@dataclass(frozen=True, slots=True)
class Merged:
    """Rows in the order of time, and how many steps each stands for.

    `members` are the unusual steps and those that stay alone, in order; `shown` the step of the row that each is in.
    """

    rows: Rows
    weights: Times
    members: Times
    shown: Times


@dataclass(slots=True)
class StepMerger:
    """Takes steps piece by piece, and merges `weight` at a time."""

    weight: int
    _merged: list[Rows] = field(default_factory=list)
    _alone: list[Rows] = field(default_factory=list)
    _unusual: list[tuple[Rows, Times]] = field(default_factory=list)
    _members: list[tuple[Times, Times]] = field(default_factory=list)
    _pending: list[Rows] = field(default_factory=list)
    _seen: int = 0

    def take_old(self, rows: Rows) -> None:
        """Steps that come before all others, and were merged before: they have `weight` and `kind`."""
        if not len(rows):
            return
        self._seen = ALONE
        ordinary = rows["kind"] == 0
        before = int(rows["weight"].max())
        size = max(1, self.weight // before)
        merged, _ = merge_alike(picked(rows, ordinary), size)  # of so many rows less than `size` are left
        self._merged.append(merged)
        self._keep(picked(rows, rows["kind"] == ALONE_KIND))
        unusual = picked(rows, rows["kind"] > 0)
        self._unusual.append((unusual, unusual["kind"].astype(np.int64)))

    def take(self, rows: Rows) -> None:
        """The next steps, in order; each has its parts, `other` included, and `device`."""
        if not len(rows):
            return
        kinds = kinds_of(rows, first=self._seen)
        self._seen += len(rows)
        ordinary, alone = kinds == 0, kinds == ALONE_KIND
        if alone.any():
            self._keep(picked(rows, alone))
        unusual = ~ordinary & ~alone
        self._unusual.append((picked(rows, unusual), kinds[unusual]))
        if sum(len(kind) for _, kind in self._unusual) > MOST_UNUSUAL:
            self._unusual = [self._merge_unusual()]
        pending = joined([*self._pending, picked(rows, ordinary)])
        whole = len(pending) // (self.weight * BLOCKS) * self.weight * BLOCKS
        self._merge(pending[:whole])
        self._pending = [joined([pending[whole:]])]

    def finish(self) -> Merged:
        """All that was taken, merged; there was something."""
        left = [self._merge(rows) for rows in self._pending]
        rest = joined([*left, self._merge_unusual()[0]])
        rest = picked(rest, np.argsort(-_durations(rest), kind="stable"))
        last = self._merge(rest)
        if len(last):
            self._merged.append(_means(last.reshape(1, -1), last[:1]))
        rows = joined([*self._alone, *self._merged])
        weights = np.full(len(rows), self.weight, np.int64)
        weights[: sum(map(len, self._alone))] = 1
        if len(last):
            weights[-1] = len(last)
        order = np.argsort(rows["start"], kind="stable")
        members, shown = (np.concatenate(part) for part in zip(*self._members, strict=True))
        by_step = np.argsort(members, kind="stable")
        return Merged(picked(rows, order), weights[order], members[by_step], shown[by_step])

    def _merge(self, rows: Rows) -> Rows:
        """Merge steps of one kind; returns those left over."""
        merged, left = merge_alike(rows, self.weight)
        self._merged.append(merged)
        return left

    def _keep(self, rows: Rows) -> None:
        self._alone.append(rows)
        self._note_members(rows["step"], rows["step"])

    def _merge_unusual(self) -> tuple[Rows, Times]:
        """Merge the unusual steps of each kind; returns those left over, with their kinds."""
        parts, kinds_of_parts = zip(*self._unusual, strict=True)
        rows, kinds = joined(parts), np.concatenate(kinds_of_parts)
        left = np.zeros(len(rows), np.bool_)
        for kind in np.unique(kinds):
            of_kind = np.flatnonzero(kinds == kind)
            whole = len(of_kind) // self.weight * self.weight
            steps = rows["step"][of_kind[:whole]]
            self._note_members(steps, np.repeat(steps[:: self.weight], self.weight))
            self._merge(picked(rows, of_kind))
            left[of_kind[whole:]] = True
        return picked(rows, left), kinds[left]

    def _note_members(self, steps: Times, shown: Times) -> None:
        self._members.append((steps, shown))


def nearest_steps(merged: Merged, steps: Times) -> Times:
    """The number of the row that stands for a step: if it is an ordinary one, of one that ran about the same time."""
    rows = merged.rows["step"]
    numbers = rows[~np.isin(rows, merged.shown)]
    numbers.sort()
    result = steps.copy()
    if len(numbers):
        place = np.clip(np.searchsorted(numbers, steps), 0, len(numbers) - 1)
        result = np.where(steps <= rows.max(), numbers[place], steps)
    place = np.clip(np.searchsorted(merged.members, steps), 0, len(merged.members) - 1)
    found: Times = np.where(merged.members[place] == steps, merged.shown[place], result)
    return found


def merge_alike(rows: Rows, size: int) -> tuple[Rows, Rows]:
    """Rows for `size` steps of a kind each, made of those nearest in length that ran about the same time.

    And the steps that are left over, fewer than `size`.
    """
    block, whole = size * BLOCKS, len(rows) // size * size
    edges = [*range(0, whole, block), whole]
    merged = [_merge_block(rows[begin:end], size) for begin, end in pairwise(edges)]
    return joined([rows[:0], *merged]), rows[whole:]


def _merge_block(rows: Rows, size: int) -> Rows:
    """The shortest steps make one row, and so on; sorted by length the rows would look like a drift."""
    by_length = np.argsort(_durations(rows), kind="stable").reshape(-1, size)
    shuffled = np.random.default_rng(0).permutation(len(by_length))
    return _means(picked(rows, by_length[shuffled]), rows[::size])


def _durations(rows: Rows) -> Times:
    durations: Times = rows["end"] - rows["start"]
    return durations


def kinds_of(rows: Rows, *, first: int) -> Times:
    """0 for an ordinary step, ALONE_KIND for one that stays alone; else a number of its flags and of the part that
    makes it long. `first`: how many steps came before.
    """
    flags = rows["flags"].astype(np.int64)
    if not len(rows):
        return flags
    usual = int(np.bincount(flags & _KNOWN_FLAGS).argmax())
    durations = _durations(rows)
    kinds = np.where(flags == usual, 0, (flags + 1) * _KINDS)
    long = np.flatnonzero(durations > UNUSUAL * np.median(durations))
    if len(long):
        excess = np.stack([rows[part][long] - np.median(rows[part]) for part in PARTS])
        kinds[long] = (flags[long] + 1) * _KINDS + 1 + excess.argmax(axis=0)
    kinds[(rows["flags"] & _APART) != 0] = ALONE_KIND
    kinds[: max(0, ALONE - first)] = ALONE_KIND
    return kinds


def _means(groups: Rows, shown: Rows) -> Rows:
    """One row for each group: its times the means of the group, its place that of a row of `shown`."""
    rows, size = joined([groups[:, -1]]), groups.shape[1]  # the flags of the longest
    rows["step"], rows["start"] = shown["step"], shown["start"]
    for name in _MEANS:
        rows[name] = groups[name].sum(axis=1) // size
    for name in _KNOWN_MEANS:
        values = groups[name]
        known = (values >= 0).all(axis=1)
        mean = np.maximum(values, 0).sum(axis=1) // size
        rows[name] = np.where(known, mean, -1)
        if name == PARTS[0]:
            rows["other"] += np.where(known, 0, mean)
    rows["end"] = rows["start"] + np.maximum(rows["data_wait"], 0)
    for name in PARTS[1:]:
        rows["end"] += rows[name]
    return rows
