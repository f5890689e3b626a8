"""How often a step uses each weight: in a model that is called once, each layer once.

Autograd keeps a function for each use of a layer, and adds up the gradients of all uses before it accumulates them
once. So functions of layers with weights, over half of the accumulations (a layer has a weight and a bias), are the
uses of each.
"""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.sample_work import gpu_ranks
from stepscope.analyses.operators.lib.host_costs import TracedCalls, traced_calls
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.core.run import Run, chain

__all__ = ["WeightUses", "weight_uses"]

LONG = 50_000  # ns: an operator that long computes; of shorter ones the call is most of the time
_NAME = pl.col("name").str
_LAYER = _NAME.contains(r"evaluate_function: (Convolution|Cudnn\w*|Mkldnn\w*|Addmm|Linear|Embedding|Mm)\w*Backward\d*$")
_ACCUMULATE = _NAME.ends_with("evaluate_function: torch::autograd::AccumulateGrad")
_LSTM_CELL = _NAME.contains(r"^aten::(lstm_cell|_thnn_fused_lstm_cell)$")
_CELL = _NAME.contains(r"^aten::(gru_cell|lstm_cell|rnn_tanh_cell|rnn_relu_cell|_thnn_fused_\w+_cell)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUses:
    """`uses` of each weight and calls of recurrent `cells`, `lstm_cells` among them, per step of a rank.

    `short` is the time of forward and backward outside of operators of 50 µs and more, in ns of a mean steady step,
    which is `step`.
    """

    rank: int
    uses: float
    cells: float
    lstm_cells: float
    short: float
    step: float


def weight_uses(run: Run) -> tuple[WeightUses, ...]:
    """Ranks that compute on the CPU and accumulate gradients. Raises MissingData without a trace or steady steps."""
    return run.per_rank(_weight_uses, chain)


def _weight_uses(run: Run) -> tuple[WeightUses, ...]:
    means = enough_steps(run).group_by("rank").agg(pl.col("forward", "backward").mean())
    computing = {rank: (forward or 0.0) + (backward or 0.0) for rank, forward, backward in means.iter_rows()}
    found = (_of_rank(calls, computing[calls.rank]) for calls in traced_calls(run) if calls.rank not in gpu_ranks(run))
    return tuple(row for row in found if row is not None)


def _of_rank(calls: TracedCalls, computing: float) -> WeightUses | None:
    tests = (_LAYER, _ACCUMULATE, _CELL, _LSTM_CELL)
    layers, gradients, cells, lstm = (calls.cost(calls.tree.passing(test)).calls for test in tests)
    if not gradients:
        return None
    long = calls.tree.nesting.self_time >= LONG
    return WeightUses(
        rank=calls.rank,
        uses=layers / max(1.0, gradients / 2),
        cells=cells,
        lstm_cells=lstm,
        short=max(0.0, computing - calls.cost(long & calls.tree.operators, alone=True).time),
        step=calls.step,
    )
