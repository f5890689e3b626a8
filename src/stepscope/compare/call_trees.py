"""What the host called in a step, as one tree for a run: steps and ranks are laid over each other, figures are summed.

The backward thread counts as part of the thread that waits for it: its calls are inside the step, and the wait is no
time of the step's own. Other threads have a place of their own beside the step. Where no steps are marked, the tree is
of all that was recorded. Times are ns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree, enumerated, host_tree
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.lib.markers import is_backward
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.compare.alignable_tree import AlignableTree, alignable_tree, levels_of
from stepscope.compare.alignment import summed
from stepscope.core.errors import MissingData
from stepscope.core.nesting import Nesting, nest
from stepscope.core.run import Run

__all__ = ["OTHERS", "STEP", "CallTrees", "call_tree_of"]

STEP = "ProfilerStep"
"""The name of every marked step, without its number."""

OTHERS = "other threads"
"""The name above the calls of threads that neither mark steps nor run backward."""

_WRAPPER = "autograd::engine::evaluate_function"  # since torch 1.11 around what stood alone before
_MOSTLY = 0.5  # of a thread's time in operators: autograd's own thread runs little else than backward
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Flat:
    """The calls of a rank, step after step, without roots; `parent` is -1 for the outermost, `aside` other threads."""

    names: tuple[str, ...]
    label: Ints
    inputs: Ints
    mark: Bools
    parent: Ints
    figures: Ints
    aside: Bools


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallTrees:
    """The `tree` of a mean step or recording, with sums over `count` of them; `steps` is 0 where none are marked.

    `on_device`: device work is known by the calls that launched it.
    """

    tree: AlignableTree
    steps: int
    count: int
    on_device: bool


def call_tree_of(run: Run) -> CallTrees | None:
    """The call tree of a run; None where no operators or annotations of the host were recorded."""
    try:
        return run.per_rank(_of_ranks, _joined)
    except MissingData:
        return None


def _joined(parts: Sequence[CallTrees]) -> CallTrees:
    """The trees of ranks as one; of ranks that mark steps, if any do."""
    kept = [part for part in parts if part.steps] or list(parts)
    return CallTrees(
        tree=summed(part.tree for part in kept),
        steps=sum(part.steps for part in kept),
        count=sum(part.count for part in kept),
        on_device=any(part.on_device for part in kept),
    )


def _of_ranks(run: Run) -> CallTrees:
    tree = host_tree(run)
    device, on_device = _device_time(run, tree)
    ranks = tree.frame["rank"].to_numpy()
    working = np.unique(ranks[~tree.calls])
    if not len(working):
        raise MissingData("operators", how=RECORD_TRACE)
    return _joined([_of_rank(run, tree, device, on_device, np.flatnonzero(ranks == rank)) for rank in working])


def _device_time(run: Run, tree: HostTree) -> tuple[Ints, bool]:
    """For each row of the tree the device work that it launched itself."""
    own = np.zeros(len(tree.owner), dtype=np.int64)
    try:
        found = launches(run)
    except MissingData:
        return own, False
    owned = found.operator >= 0
    np.add.at(own, found.operator[owned], (found.work["end"] - found.work["start"]).to_numpy()[owned])
    return own, bool(owned.any())


def _of_rank(run: Run, tree: HostTree, device: Ints, on_device: bool, rows: Ints) -> CallTrees:
    track, main = _threads(tree, rows)
    start, end = (tree.frame[name].to_numpy()[rows] for name in ("start", "end"))
    nesting = nest(track, start, end)
    marker = _markers(tree)[rows] & (track == main)
    step = _steps(nesting, marker, (start, end), track == main)
    kept = np.flatnonzero((step >= 0) & np.isin(track, track[~tree.calls[rows]]))
    kept = kept[np.lexsort((-end[kept], start[kept], track[kept], track[kept] != main, step[kept]))]
    figures = np.stack((np.ones_like(kept), nesting.self_time[kept], device[rows[kept]]), axis=1)
    flat = _Flat(
        *_named(tree, rows[kept], marker[kept]), _inputs(run, tree, rows[kept]), _marks(tree, rows[kept]),
        _within(nesting.parent, kept), figures, track[kept] != main,
    )  # fmt: skip
    ends = np.flatnonzero(np.diff(step[kept], append=-1)) + 1
    steps = int(marker.sum())
    trees = (_rooted(flat, slice(first, last)) for first, last in pairwise((0, *ends.tolist())))
    return CallTrees(tree=summed(trees), steps=steps, count=max(steps, 1), on_device=on_device)


def _markers(tree: HostTree) -> Bools:
    """The rows that mark steps."""
    return tree.passing(pl.col("name").str.contains(r"^ProfilerStep#\d")) & ~tree.calls


def _threads(tree: HostTree, rows: Ints) -> tuple[Ints, int]:
    """The thread of each row, that of backward as the main one; and the main one, which marks steps or works most."""
    track = tree.frame["track"].to_numpy()[rows].copy()
    outermost = tree.operators[rows] & (tree.nesting.depth[rows] == 0)
    time = np.where(outermost, (tree.frame["end"] - tree.frame["start"]).to_numpy()[rows], 0)
    of = partial(np.bincount, track, minlength=int(track.max()) + 1)
    whole, marked = of(weights=time), of(weights=_markers(tree)[rows])
    backward = of(weights=np.where(tree.passing(is_backward())[rows], time, 0))
    autograd = (backward > _MOSTLY * whole) & (marked == 0)
    main = int(np.lexsort((whole, ~autograd, marked))[-1])
    autograd[main] = False
    if autograd.any():
        track[track == np.where(autograd, backward, -1.0).argmax()] = main
    return track, main


def _steps(nesting: Nesting, marker: Bools, spans: tuple[Ints, Ints], on_main: Bools) -> Ints:
    """The number of the step that each row is in, -1 outside; where none are marked, all is one step."""
    if not marker.any():
        return np.zeros(len(marker), dtype=np.int64)
    start, end = spans
    marks = np.flatnonzero(marker)
    marks = marks[np.argsort(start[marks], kind="stable")]
    step = np.full(len(marker), -1, dtype=np.int64)
    aside = np.flatnonzero(~on_main & (nesting.parent < 0))
    before = np.searchsorted(start[marks], start[aside], side="right") - 1
    step[aside] = np.where((before >= 0) & (start[aside] < end[marks[before]]), before, -1)
    step[marks] = np.arange(len(marks))
    for level in levels_of(nesting.parent)[1:]:
        inner = level[step[level] < 0]
        step[inner] = step[nesting.parent[inner]]
    return step


def _named(tree: HostTree, rows: Ints, marker: Bools) -> tuple[tuple[str, ...], Ints]:
    """The distinct names of the rows, and the number of each row's."""
    codes = tree.name.to_physical().to_numpy()[rows].astype(np.int64)
    used, label = np.unique(np.where(marker, -1, codes), return_inverse=True)
    return tuple(STEP if code < 0 else tree.names[code] for code in used.tolist()), label


def _inputs(run: Run, tree: HostTree, rows: Ints) -> Ints:
    """A number for the shapes of each row's inputs, the same in all processes; 0 where they were not recorded."""
    dims = run.optional("host", "input_dims")["input_dims"].gather(tree.frame["host_row"].gather(rows))
    dims = enumerated(dims)
    assert isinstance(dims.dtype, pl.Enum)
    numbers = np.array([*(crc32(text.encode()) for text in dims.dtype.categories), 0], dtype=np.int64)
    found: Ints = numbers[dims.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()]
    return found


def _marks(tree: HostTree, rows: Ints) -> Bools:
    """The rows that only mark what is inside them."""
    wraps = tree.passing(pl.col("name").str.starts_with(_WRAPPER))
    return ((~tree.operators & ~tree.calls) | wraps)[rows]


def _within(parent: Ints, kept: Ints) -> Ints:
    """For each row that is kept, which of these its parent is, or -1."""
    place = np.full(len(parent) + 1, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    return place[parent[kept]]


def _rooted(flat: _Flat, part: slice) -> AlignableTree:
    """The rows of a step below a root; those of other threads below a row of their own, at the end."""
    aside, parent = flat.aside[part], flat.parent[part]
    on_main = int((~aside).sum())
    outermost = np.where(aside, on_main + 1, 0)
    inner = np.where(parent < 0, outermost, parent - part.start + np.where(aside, 2, 1))
    at = [0, on_main]
    return alignable_tree(
        names=(*flat.names, "", OTHERS),
        label=np.insert(flat.label[part], at, [len(flat.names), len(flat.names) + 1]),
        inputs=np.insert(flat.inputs[part], at, 0),
        mark=np.insert(flat.mark[part], at, True),
        parent=np.insert(inner, at, [-1, 0]),
        figures=np.insert(flat.figures[part], at, (1, 0, 0), axis=0),
    )
