"""Device work in the order in which operators launch it, and a number for each sequence of names."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.device_work import device_work, work_names
from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.core.nesting import outwards
from stepscope.core.run import Run

__all__ = ["LONGEST", "LaunchedWork", "by_group", "launched_work_of", "operator_above", "sequences", "spelled"]

LONGEST = 64
"""Work of a sequence that is told apart: what launches more is a part of a model."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LaunchedWork:
    """Device work, each with a launch: rank; start, end and launched (start of the launch) in ns; `device.index`.

    `name` is the place of its name among those of `work_names`; `group` what it belongs to, such as a call.
    """

    group: Ints
    rank: Ints
    start: Ints
    end: Ints
    launched: Ints
    index: Ints
    name: Ints

    def __getitem__(self, rows: Ints) -> "LaunchedWork":
        columns = (self.group, self.rank, self.start, self.end, self.launched, self.index, self.name)
        return LaunchedWork(*(column[rows] for column in columns))


def operator_above(run: Run) -> Ints:
    """For each row of the host tree the innermost operator around it, -1 for none."""
    return run.once(_operator_above)


def _operator_above(run: Run) -> Ints:
    tree = host_tree(run)
    return outwards(tree.nesting.parent, tree.nesting.parent, tree.operators)


def launched_work_of(run: Run, tree: HostTree, rows: Ints, group: Ints) -> LaunchedWork:
    """Device work in some rows, all with a launch, in order of group, launch, start and index."""
    work = device_work(run, "index")
    rank, start, end, index = (work[name].to_numpy()[rows] for name in ("rank", "start", "end", "index"))
    launched = tree.frame["start"].to_numpy()[launches(run).call[rows]]
    name = work_names(run).to_physical().to_numpy()[rows].astype(np.int64)
    found = LaunchedWork(group, rank.astype(np.int64), start, end, launched, index, name)
    return found[np.lexsort((index, start, launched, group))]


def by_group(work: LaunchedWork) -> tuple[Ints, Ints]:
    """The first row of each group, and its number of rows."""
    first = np.flatnonzero(np.diff(work.group, prepend=-1))
    return first, np.diff(first, append=len(work.group))


def sequences(work: LaunchedWork, first: Ints, length: Ints) -> Ints:
    """For each group a number, equal for groups whose first LONGEST names are equal."""
    number, used = work.name[first], int(work.name.max(initial=-1)) + 1
    names = used
    for place in range(1, min(int(length.max(initial=0)), LONGEST)):
        longer = np.flatnonzero(length > place)
        pairs = number[longer] * names + work.name[first[longer] + place]
        distinct, found = np.unique(pairs, return_inverse=True)
        number[longer] = used + found
        used += len(distinct)
    return number


def spelled(run: Run, work: LaunchedWork, first: Ints, length: Ints) -> pl.Series:
    """For groups by their first row and number of rows, the list of their first LONGEST names."""
    length = np.minimum(length, LONGEST)
    group = np.repeat(np.arange(len(first)), length)
    place = np.arange(len(group)) - np.repeat(np.cumsum(length) - length, length)
    kind = work_names(run).dtype
    assert isinstance(kind, pl.Enum)
    names = kind.categories.gather(work.name[first[group] + place])
    lists = pl.DataFrame({"group": group, "sequence": names}).group_by("group", maintain_order=True)
    return lists.agg("sequence")["sequence"]
