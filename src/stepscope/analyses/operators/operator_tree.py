"""The call tree of a step by operators, from a trace: one tree for each thread of the host.

A row is a node of the tree of a thread: the thread (node 0), below it what it was in, as it nests by time: Python
frames and modules where they were recorded, annotations, operators, and runtime and driver calls. Equal paths are one
node; `ProfilerStep#N` of all steps is `ProfilerStep`. Times are means over the marked steps, without warm-up and empty
ones. Where no steps are marked, `steps` is null and times are of the whole recording. Nodes add up exactly: `self` and
the totals of the nodes below one are its total. Of spans that overlap without nesting, the later one counts from the
end of the earlier. `calls` are those in all of these steps.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.call_trees import LEADING as TREE_LEADING
from stepscope.analyses.lib.call_trees import NODE, Label, scaled, tree_frame
from stepscope.analyses.lib.host_spans import HostSpans, host_spans, nested
from stepscope.analyses.lib.result_tables import RANK, shaped
from stepscope.analyses.lib.trace_phases import traced_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.call_tree import CallTree, call_tree
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

__all__ = ["ANALYSIS", "operator_tree"]

Ints = npt.NDArray[np.int64]
COLUMNS = (
    RANK,
    Column("pid", pl.String, None, "process"),
    Column("thread", pl.String, None, "thread"),
    Column("steps", pl.Int64, "count", "steps that times are the mean of; null: none are marked, times are of all"),
    *NODE,
)


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank, thread (the one that is longest in operators first) and node. Raises MissingData without any."""
    spans = host_spans(run)
    windows = _steps(run)
    trees = [(rank, *_of_rank(spans, rank, windows.get(rank))) for rank in sorted(set(spans.threads["rank"]))]
    frames = [frame for _, _, found in trees for frame in found]
    if not frames:
        raise MissingData("host events in steps", how="trace more steps: `stepscope run --trace 10:13 -- COMMAND`")
    return shaped(pl.concat(frames, how="vertical_relaxed"), COLUMNS)


def _steps(run: Run) -> dict[int, Ints]:
    """Starts and ends of the steps of each rank that count, disjoint and in order of time."""
    traced = traced_steps(run)
    busy = {step.rank for step in traced if step.operators}
    table = pl.DataFrame(
        [(step.rank, step.step, step.start, step.end) for step in traced if step.operators or step.rank not in busy],
        schema={"rank": pl.Int32, "step": pl.Int64, "start": pl.Int64, "end": pl.Int64}, orient="row",
    )  # fmt: skip
    if table.is_empty():
        return {}
    warm_up = steps(run).filter(pl.col("tags").list.contains("warm-up")).select("rank", "step")
    steady = table.join(warm_up, on=["rank", "step"], how="anti", maintain_order="left")
    steady = pl.concat([steady, table.join(steady.select("rank").unique(), on="rank", how="anti")])
    found = {}
    for (rank,), part in steady.sort("start", "end").group_by("rank"):
        start, end = part["start"].to_numpy(), part["end"].to_numpy()
        before = np.concatenate((start[:1], np.maximum.accumulate(end)[:-1]))
        found[int(str(rank))] = np.stack((np.maximum(start, before), np.maximum(end, before)), axis=1)
    return found


def _of_rank(spans: HostSpans, rank: int, windows: Ints | None) -> tuple[int, list[pl.DataFrame]]:
    """The trees of a rank's threads; the number of steps that they are the mean of, or one recording."""
    mine = np.flatnonzero(spans.threads["rank"].to_numpy()[spans.track] == rank)
    if windows is None:
        windows = np.array([[spans.start[mine].min(), spans.end[mine].max() + 1]], dtype=np.int64)
        count = None
    else:
        count = len(windows)
    rows, window = _in_windows(spans.start[mine], spans.end[mine], windows)
    if not len(rows):
        return 0, []
    nodes = _nodes(spans, mine[rows], window, windows, first=np.sign(np.diff(rows, prepend=-1)))
    frames = []
    for track, tree in sorted(nodes, key=lambda found: _by_operators(found[1], spans.labels)):
        mean = scaled(tree, round(int(tree.total[0]) / (count or 1)))
        whose = spans.threads.row(track, named=True)
        labels = [*spans.labels, Label(_thread(whose["thread"], whose["name"]), "root")]
        more = {"rank": rank, "pid": whose["pid"], "thread": whose["thread"]}
        frames.append(tree_frame(mean, labels, {}, **more).with_columns(steps=pl.lit(count, dtype=pl.Int64)))
    return count or 1, frames


def _by_operators(tree: CallTree, labels: tuple[Label, ...]) -> tuple[int, int]:
    """Order of threads: one that only waits, as long as it does, tells less than one that works."""
    kinds = np.array([*(label.kind in ("operator", "call") for label in labels), False])
    return -int(tree.own[kinds[tree.label]].sum()), -int(tree.total[0])


def _thread(thread: str | None, name: str | None) -> str:
    if not name:
        return f"thread {thread}"
    return name if thread and thread in name else f"{name} (thread {thread})"


def _in_windows(start: Ints, end: Ints, windows: Ints) -> tuple[Ints, Ints]:
    """Each span once for every window that it lies in: its row and the window's, in order of rows."""
    first = np.searchsorted(windows[:, 1], start, side="right")
    count = np.maximum(np.searchsorted(windows[:, 0], np.maximum(end, start + 1)) - first, 0)
    rows = np.repeat(np.arange(len(start)), count)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(count) - count - first, count)


def _nodes(spans: HostSpans, rows: Ints, window: Ints, windows: Ints, first: Ints) -> Iterator[tuple[int, CallTree]]:
    """The tree of each thread, from spans that are cut to their windows; `first`: 1 for its first part, else 0."""
    start = np.maximum(spans.start[rows], windows[window, 0])
    end = np.minimum(spans.end[rows], windows[window, 1])
    threads, track = np.unique(spans.track[rows], return_inverse=True)
    laid = nested(window * len(threads) + track, start, end)
    length = laid.end - laid.start
    own = length.copy()
    inner = np.flatnonzero(laid.parent >= 0)
    np.subtract.at(own, laid.parent[inner], length[inner])
    node, parent, label = _merged(laid.parent, laid.depth, spans.label[rows], track, len(spans.labels), len(threads))
    sums, calls = np.zeros(len(parent), dtype=np.int64), np.zeros(len(parent), dtype=np.int64)
    np.add.at(sums, node, own)
    np.add.at(calls, node, first)
    tree_of = np.arange(len(parent))
    for at in range(len(threads), len(parent)):  # parents come first
        tree_of[at] = tree_of[parent[at]]
    for number, thread in enumerate(threads.tolist()):
        of = np.flatnonzero(tree_of == number)
        place = np.full(len(parent) + 1, -1, dtype=np.int64)
        place[of] = np.arange(len(of))
        yield thread, call_tree(label=label[of], parent=place[parent[of]], own=sums[of], calls=calls[of])


def _merged(parent: Ints, depth: Ints, label: Ints, track: Ints, labels: int, tracks: int) -> tuple[Ints, Ints, Ints]:
    """The node of each span; and of the nodes, of which the first are the tracks' roots, parent and label."""
    node = np.empty(len(parent), dtype=np.int64)
    parents, kinds, made = [np.full(tracks, -1)], [np.full(tracks, labels)], tracks
    for rows in np.split(np.argsort(depth, kind="stable"), np.cumsum(np.bincount(depth))[:-1]):
        above = np.where(parent[rows] >= 0, node[np.maximum(parent[rows], 0)], track[rows])
        keys, inverse = np.unique(above * labels + label[rows], return_inverse=True)
        node[rows] = made + inverse
        made += len(keys)
        parents.append(keys // labels)
        kinds.append(keys % labels)
    return node, np.concatenate(parents), np.concatenate(kinds)


LEADING = TREE_LEADING
ANALYSIS = operator_tree = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
