"""Attention that no fused kernel computes: what runs between its two batched matrix products.

A softmax, or its backward, is of attention if on its thread the operator before and after it that does more than
elementwise work is a batched matrix product.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import HostTree, host_tree
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.rules.operators.lib.launchers import Bools, launched_by

__all__ = ["AttentionChains", "attention_chains", "attention_operators"]

Ints = npt.NDArray[np.int64]
_BATCHED = r"^aten::(bmm|baddbmm_?)$"
_SOFTMAX = r"^aten::_softmax(_backward_data)?$"
_HEAVY = (
    r"^aten::(bmm|baddbmm_?|mm|addmm_?|addmv|mv|dot|native_(layer|group|batch)_norm\w*|_fused_rms_norm\w*|embedding\w*|"
    r"\w*convolution\w*|\w*attention\w*|_log_softmax\w*|nll_loss\w*|linear_backward)$"
)


@dataclass(frozen=True, slots=True, eq=False)
class AttentionChains:
    """`work` are the rows of `device_work` launched between the products; `softmax` the rows of the tree."""

    work: pl.Series
    softmax: Ints


def attention_chains(run: Run) -> AttentionChains:
    """What the chains launch; nothing in a trace without operators. Raises MissingData without device work."""
    return run.once(_chains)


def attention_operators(run: Run) -> tuple[Bools, Ints]:
    """The rows of `host_tree` that lie in chains, and the softmax of each. Raises MissingData without host events."""
    return run.once(_operators)


def _chains(run: Run) -> AttentionChains:
    try:
        marked, softmax = attention_operators(run)
    except MissingData:
        marked, softmax = np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.int64)
    return AttentionChains(launched_by(run, marked), softmax)


def _operators(run: Run) -> tuple[Bools, Ints]:
    tree = host_tree(run)
    marked = np.zeros(tree.frame.height, dtype=np.bool_)
    softmax = np.flatnonzero(tree.operators & tree.passing(pl.col("name").str.contains(_SOFTMAX)))
    heavy = np.flatnonzero(tree.operators & tree.passing(pl.col("name").str.contains(_HEAVY)))
    if not len(softmax) or not len(heavy):
        return marked, softmax[:0]
    start, end, track = (tree.frame[name].to_numpy() for name in ("start", "end", "track"))
    heavy = heavy[np.lexsort((start[heavy], track[heavy]))]
    before, after = _neighbors(tree, softmax, heavy)
    batched = tree.passing(pl.col("name").str.contains(_BATCHED))
    own = (before >= 0) & (after >= 0) & batched[before] & batched[after]
    own &= (track[before] == track[softmax]) & (track[after] == track[softmax])
    marked = _between(tree, end[before[own]], start[after[own]], track[softmax[own]])
    return marked & tree.operators, softmax[own]


def _between(tree: HostTree, begin: Ints, stop: Ints, track: Ints) -> Bools:
    """The rows that lie in one of these spans of their thread; spans may be there twice, else they are disjoint."""
    if not len(begin):
        return np.zeros(tree.frame.height, dtype=np.bool_)
    order = np.lexsort((begin, track))
    begin, stop, track = begin[order], stop[order], track[order]
    own, start, end = (tree.frame[name].to_numpy() for name in ("track", "start", "end"))
    at = np.searchsorted(np.rec.fromarrays([track, begin]), np.rec.fromarrays([own, start]), side="right") - 1
    found: Bools = (at >= 0) & (track[at] == own) & (start >= begin[at]) & (end <= stop[at])
    return found


def _neighbors(tree: HostTree, rows: Ints, heavy: Ints) -> tuple[Ints, Ints]:
    """For each row the heavy operators before and after it on its thread, -1 where there is none."""
    key = np.rec.fromarrays([tree.frame["track"].to_numpy(), tree.frame["start"].to_numpy()])
    at = np.searchsorted(key[heavy], key[rows])
    padded = np.concatenate(([-1], heavy, [-1]))
    return padded[at], padded[at + 1]
