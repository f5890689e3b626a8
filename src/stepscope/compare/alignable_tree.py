"""A tree of calls as arrays, in which two like subtrees are found by one number."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

__all__ = ["AlignableTree", "alignable_tree", "digests", "levels_of", "preorder"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AlignableTree:
    """Calls, each before those inside it; row 0 is the root, the only one without a `parent` (-1).

    `names[label]` is the name of a row, `inputs` a number for the shapes of its inputs (0: not recorded); `mark` tells
    that it only marks what is inside. `figures` has a row for each: calls, own time on the host, own time on the
    device (ns). `key` is a number for the name of each row, `shape` for all names inside it and their order, `size`
    counts the rows of it and all inside it.
    """

    names: tuple[str, ...]
    label: Ints
    inputs: Ints
    mark: Bools
    parent: Ints
    figures: Ints
    key: Hashes
    shape: Hashes
    size: Ints


def alignable_tree(
    names: tuple[str, ...], label: Ints, inputs: Ints, mark: Bools, parent: Ints, figures: Ints
) -> AlignableTree:  # fmt: skip
    """The tree of these rows."""
    levels = levels_of(parent)
    key = digests(names)[label]
    return AlignableTree(
        names=names, label=label, inputs=inputs, mark=mark, parent=parent, figures=figures, key=key,
        shape=_shapes(key, parent, levels), size=_sizes(parent, levels),
    )  # fmt: skip


def digests(names: tuple[str, ...]) -> Hashes:
    """A number for each name, the same in all processes."""
    found = (int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) for name in names)
    return np.fromiter(found, dtype=np.uint64, count=len(names))


def levels_of(parent: Ints) -> list[Ints]:
    """The rows of each depth, outermost first."""
    depth, above = np.zeros(len(parent), dtype=np.int64), parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.cumsum(np.bincount(depth))[:-1])


def preorder(parent: Ints, siblings: Ints) -> Ints:
    """The place of each row if all come before those inside them; `siblings` sorts the rows by parent, then as told."""
    levels = levels_of(parent)
    size = _sizes(parent, levels)
    ends = np.cumsum(size[siblings])
    first = np.concatenate(([True], parent[siblings][1:] != parent[siblings][:-1]))
    begins = (ends - size[siblings])[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
    before = np.empty_like(size)
    before[siblings] = ends - size[siblings] - begins
    place = np.zeros_like(size)
    for level in levels[1:]:
        place[level] = place[parent[level]] + 1 + before[level]
    return place


def _sizes(parent: Ints, levels: list[Ints]) -> Ints:
    size = np.ones(len(parent), dtype=np.int64)
    for level in reversed(levels[1:]):
        np.add.at(size, parent[level], size[level])
    return size


def _shapes(key: Hashes, parent: Ints, levels: list[Ints]) -> Hashes:
    """Sums of the shapes inside, each mixed with its place among its siblings, mixed with the row's own name."""
    order = np.argsort(parent, kind="stable")
    firsts = np.searchsorted(parent[order], parent)
    places = np.empty(len(parent), dtype=np.int64)
    places[order] = np.arange(len(parent))
    nth = (places - firsts).astype(np.uint64)
    inside = np.zeros(len(parent), dtype=np.uint64)
    shape = np.empty(len(parent), dtype=np.uint64)
    for level in reversed(levels):
        shape[level] = _mixed(key[level] ^ _mixed(inside[level]))
        if level is not levels[0]:
            np.add.at(inside, parent[level], _mixed(shape[level] + _mixed(nth[level])))
    return shape


def _mixed(values: Hashes) -> Hashes:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)
