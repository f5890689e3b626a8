"""The tree of module instances that calls form by nesting."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.result_tables import at_rows
from stepscope.core.nesting import Nesting

__all__ = ["Nodes", "node_tree"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
_ROOT, _AGAIN = -1, -2  # what stands above a node: nothing, or the recomputation that it begins


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """The instances of a run by where they are called from.

    `frame` holds rank, module (path), instance, class and depth, in order of ranks and, within each, of the tree:
    parents before children, and these by their first start. `parent` is the row of the parent, -1 for none.
    """

    frame: pl.DataFrame
    parent: Ints

    def path_of(self, rows: Ints) -> pl.Series:
        """Paths of nodes, null for -1."""
        return at_rows(self.frame["module"], rows)


def node_tree(calls: pl.DataFrame, nested: Nesting, again: Bools) -> tuple[Ints, Nodes]:
    """The node of each call, and the nodes. `again` marks calls that recompute a forward.

    `calls` has rank, instance, class and start; there is at least one.
    """
    label = calls.select(pl.struct("rank", "instance").rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    node, above, of = _levels(nested, label, again)
    merged, parent, of = _merged(above, of)
    node = merged[node]
    first = np.full(len(parent), np.iinfo(np.int64).max)
    np.minimum.at(first, node, calls["start"].to_numpy())
    names = calls.select("rank", "instance", "class").with_columns(label=pl.Series(label)).unique("label").sort("label")
    order = _order(parent, names["rank"].to_numpy()[of], first, of)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    above = np.where(parent[order] >= 0, place[parent[order]], _ROOT)
    frame = names.select("rank", "instance", "class")[of[order]]
    return place[node], Nodes(_with_paths(frame, above), above)


def _levels(nested: Nesting, label: Ints, again: Bools) -> tuple[Ints, Ints, Ints]:
    """Nodes as the calls nest: that of each call, and of each node the one above and the label."""
    node = np.empty(len(label), dtype=np.int64)
    aboves, labels, count = [], [], 0
    width = int(label.max()) + 1
    for level in range(int(nested.depth.max()) + 1):
        rows = np.nonzero(nested.depth == level)[0]
        outer = nested.parent[rows]
        above = np.where(outer >= 0, node[np.maximum(outer, 0)], np.where(again[rows], _AGAIN, _ROOT))
        keys, inverse = np.unique((above - _AGAIN) * width + label[rows], return_inverse=True)
        node[rows] = count + inverse
        count += len(keys)
        aboves.append(keys // width + _AGAIN)
        labels.append(keys % width)
    return node, np.concatenate(aboves), np.concatenate(labels)


def _merged(above: Ints, label: Ints) -> tuple[Ints, Ints, Ints]:
    """Put what is recomputed where it is in forward, if it is in one place only; else it stays where it was called.

    The new number of each node, and of the nodes that are left the one above and the label.
    """
    merged = np.empty(len(above), dtype=np.int64)
    number: dict[tuple[int, int], int] = {}
    homes = defaultdict(list)
    recomputed = np.zeros(len(above), dtype=np.bool_)
    pairs = list(zip(above.tolist(), label.tolist(), strict=True))
    for node, (over, of) in enumerate(pairs):
        recomputed[node] = over == _AGAIN or (over >= 0 and recomputed[over])
        if not recomputed[node]:
            key = (over if over < 0 else int(merged[over]), of)
            merged[node] = number.setdefault(key, len(number))
            homes[of].append(int(merged[node]))
    for node, (over, of) in enumerate(pairs):
        if recomputed[node]:
            places = homes[of] if over == _AGAIN else []
            key = (_ROOT if over < 0 else int(merged[over]), of)
            merged[node] = places[0] if len(places) == 1 else number.setdefault(key, len(number))
    parent, of_node = (np.fromiter(part, dtype=np.int64) for part in zip(*number, strict=True))
    return merged, parent, of_node


def _order(parent: Ints, rank: Ints, first: Ints, label: Ints) -> Ints:
    """Rows in order of the tree, siblings by their first start."""
    siblings = defaultdict(list)
    for row in np.lexsort((label, first, rank)).tolist():
        siblings[int(parent[row])].append(row)
    order = []
    waiting = siblings[_ROOT][::-1]
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting.extend(reversed(siblings[row]))
    return np.array(order, dtype=np.int64)


def _with_paths(frame: pl.DataFrame, parent: Ints) -> pl.DataFrame:
    """With the path and depth of each node; an instance may be named by its whole path already."""
    paths: list[str] = []
    depths: list[int] = []
    for name, above in zip(frame["instance"].to_list(), parent.tolist(), strict=True):
        outer = f"{paths[above]}." if above >= 0 else ""
        paths.append(name if name.startswith(outer) else outer + name)
        depths.append(depths[above] + 1 if above >= 0 else 0)
    module, depth = pl.Series("module", paths, dtype=pl.String), pl.Series("depth", depths, dtype=pl.Int64)
    return frame.select("rank", module, "instance", "class", depth)
