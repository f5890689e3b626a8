"""Where the time goes, as call trees: sampled lines of a step and of loader workers, and operators of a trace.

A page holds the largest nodes of each tree; the others are summed up below their parent.
"""

from collections import defaultdict

import polars as pl

from stepscope.analyses.host.line_tree import line_tree
from stepscope.analyses.input_pipeline.loader_line_tree import loader_line_tree
from stepscope.analyses.operators.operator_tree import operator_tree
from stepscope.core.call_tree import CallTree, cut
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Flame, Frame, Node, Section, Text, Value
from stepscope.core.run import Analysis, Run
from stepscope.report.sections import many

__all__ = ["MOST", "SECTION"]

MOST = 700
"""Nodes of a tree: some 40 KB of a page, and less than a thousandth of most trees is what is summed up then."""

_LOADERS = 4
_THREADS = 4
_WORK = ("operator", "call", "annotation")
_LIBRARIES = "Of library calls, only the outermost and the innermost frame are recorded."
_NO_FRAMES = "Python frames were not recorded: `stepscope run --trace 10:13 --with stacks -- COMMAND`"


def build(run: Run) -> list[Block]:
    blocks: list[Block] = []
    lacking: list[MissingData] = []
    for part in (_lines, _workers, _operators):
        try:
            blocks += part(run)
        except MissingData as lack:
            lacking.append(lack)
    if not blocks:
        raise lacking[0]
    return blocks


def _lines(run: Run) -> list[Block]:
    table = line_tree(run)
    rank, several = _slowest(table)
    tree = table.filter(rank=rank)
    samples = tree["calls"][0]
    note = Text(f"Mean step, from {many(samples, 'sample')}. {_LIBRARIES}", (Value(samples, "count"),))
    title = f"Lines of your code, rank {rank}, whose steps are longest" if several else "Lines of your code"
    return [_flame(title, tree, note, line_tree, "line_tree")]


def _workers(run: Run) -> list[Block]:
    table = loader_line_tree(run)
    roots = table.filter(node=0).sort("total", "rank", "loader", descending=[True, False, False], nulls_last=True)
    several = roots["rank"].n_unique() > 1
    blocks: list[Block] = []
    for rank, loader, name, samples in roots.head(_LOADERS).select("rank", "loader", "name", "calls").iter_rows():
        tree = table.filter(pl.col("rank") == rank, pl.col("loader").eq_missing(loader))
        title = f"Lines of the {name}" + (f", rank {rank}" if several else "")
        words = f"Summed over the workers, from {many(samples, 'sample')}. {_LIBRARIES}"
        note = Text(words, (Value(samples, "count"),))
        blocks.append(_flame(title, tree, note, loader_line_tree, "loader_line_tree"))
    return [*blocks, *_left(roots[_LOADERS:], "loader", "loader_line_tree")]


def _operators(run: Run) -> list[Block]:
    table = operator_tree(run)
    rank, several = _slowest(table)
    of_rank = table.filter(rank=rank)
    roots = of_rank.filter(node=0)
    working = of_rank.filter(pl.col("kind").is_in(_WORK)).select("pid", "thread").unique()
    working = roots.join(working, on=("pid", "thread"), how="semi", nulls_equal=True, maintain_order="left")
    shown = (roots if working.is_empty() else working).head(_THREADS)  # others only wait
    steps = roots["steps"][0]
    framed = of_rank["kind"].is_in(["user", "library"]).any()
    when = f"Mean of {many(steps, 'step')}." if steps else "The whole recording: no steps are marked."
    note = Text(when if framed else f"{when} {_NO_FRAMES}", (Value(steps, "count"),) if steps else ())
    blocks: list[Block] = []
    for pid, thread, name in shown.select("pid", "thread", "name").iter_rows():
        tree = of_rank.filter(pl.col("pid").eq_missing(pid), pl.col("thread").eq_missing(thread))
        title = f"Operators, {name}" + (f", rank {rank}" if several else "")
        blocks.append(_flame(title, tree, note, operator_tree, "operator_tree", steps))
    rest = roots.join(shown.select("pid", "thread"), on=("pid", "thread"), how="anti", nulls_equal=True)
    return [*blocks, *_left(rest, "thread", "operator_tree")]


def _slowest(table: pl.DataFrame) -> tuple[int, bool]:
    """The rank whose largest tree is largest, and whether there are others."""
    roots = table.filter(node=0).sort("total", "rank", descending=[True, False])
    return roots["rank"][0], roots["rank"].n_unique() > 1


def _left(roots: pl.DataFrame, noun: str, source: str) -> list[Block]:
    """What of trees is not shown."""
    if roots.is_empty():
        return []
    words = f"{many(roots.height, f'more {noun}')} with {{}} in all: `stepscope show {source} PATH`"
    return [Text(words, (Value(roots.height, "count"), Value(int(roots["total"].sum()), "ns")))]


def _flame(
    title: str, table: pl.DataFrame, note: Text, analysis: Analysis, source: str, steps: int | None = None
) -> Flame:
    """The largest nodes of a tree; those below each that are cut are one node, with what they add up to."""
    unit = next(column.unit for column in analysis.columns if column.name == "total")
    assert unit is not None
    tree = _tree(table)
    kept = cut(tree, MOST).tolist()
    inside: dict[int, list[int]] = defaultdict(list)
    rest: dict[int, list[int]] = defaultdict(list)  # by the node that stays: total, calls and number of what is cut
    home: list[int] = []
    for at, parent in enumerate(tree.parent.tolist()):
        home.append(at if kept[at] else home[parent])
        if kept[at]:
            inside[parent].append(at)
            continue
        total, calls, count = rest[home[at]] or (0, 0, 0)
        outermost = kept[parent]
        added = (int(tree.total[at]), int(tree.calls[at])) if outermost else (0, 0)
        rest[home[at]] = [total + added[0], calls + added[1], count + 1]
    frames, nodes = _listed(table, tree, inside, rest)
    return Flame(title, unit, frames, nodes, "calls" if source == "operator_tree" else "samples", steps, note, source)


def _tree(table: pl.DataFrame) -> CallTree:
    columns = ("node", "parent", "depth", "self", "total", "calls")
    label, parent, depth, own, total, calls = (table[name].fill_null(-1).to_numpy() for name in columns)
    return CallTree(label, parent, depth, own, total, calls)


def _listed(
    table: pl.DataFrame, tree: CallTree, inside: dict[int, list[int]], rest: dict[int, list[int]]
) -> tuple[tuple[Frame, ...], tuple[Node, ...]]:
    """Frames, each once, and nodes depth first; what is cut comes last below its parent."""
    described = [
        Frame(name, kind, file or "", line or 0, source or "")
        for name, kind, file, line, source in table.select("name", "kind", "file", "line", "text").iter_rows()
    ]
    frames: dict[Frame, int] = {}
    nodes: list[Node] = []
    waiting: list[tuple[int, int]] = [(inside[-1][0], -1)]
    while waiting:
        at, parent = waiting.pop()
        if at < 0:
            total, calls, count = rest[~at]
            frame = Frame(f"{count} smaller", "rest")
            nodes.append(Node(frames.setdefault(frame, len(frames)), parent, total, total, calls))
            continue
        place, frame = len(nodes), described[at]
        own, total, calls = int(tree.own[at]), int(tree.total[at]), int(tree.calls[at])
        nodes.append(Node(frames.setdefault(frame, len(frames)), parent, own, total, calls))
        waiting.extend((child, place) for child in reversed([*inside[at], *([~at] if at in rest else [])]))
    return tuple(frames), tuple(nodes)


SECTION = Section(title="Flame graph", order=101, group="timeline", build=build)
