"""A recurrent cell is called for each time step from Python.

## What it finds
CPU jobs that call `LSTMCell`, `GRUCell` or `RNNCell` eight times or more in a step. Short operators and Python between
them take more than 10 % of the step.

## Why it costs time
Each call costs Python, the dispatcher and functions of autograd, some 90 µs where it was measured.
`nn.LSTM` goes over the whole sequence in C++, and multiplies the inputs of all time steps at once.

## What to do
`nn.LSTM`, `nn.GRU` or `nn.RNN` over the whole sequence, where the input of a step does not depend on the output of the
last one.

## How the gain is predicted
A part of the time of forward and backward outside of operators of 50 µs and more: 0.35 to 0.7 with LSTMCell, 0 to
0.4 with the others. Measured on a CPU: nn.LSTM saves 26 to 70 % of a step, nn.GRU 0 to 31 %.

## When it is wrong
A decoder that feeds its own output back needs the loop. `torch.compile` helps there.
"""

from collections.abc import Iterator

from stepscope.analyses.operators.lib.weight_uses import weight_uses
from stepscope.core.finding import Advice, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.looped_model import MANY, MIN_SHARE, loop_example, loop_finding

__all__ = ["RULE"]

OF_LSTM = (0.35, 0.7)  # of the time in short operators; a whole step with LSTMCell was 26 to 70 % shorter
OF_OTHERS = (0.0, 0.4)  # a step with GRUCell was 0 to 31 % shorter: nn.GRU loops, too, in C++
_ADVICE = (
    Advice(
        text="Go over the whole sequence in one call",
        code="layer = nn.LSTM(features, hidden, batch_first=True)  # or nn.GRU, as the cell is\n"
        "outputs, _ = layer(sequence)",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    found = [
        row for row in weight_uses(run) if row.uses >= MANY and row.cells >= MANY and row.short >= MIN_SHARE * row.step
    ]
    if not found:
        return
    worst = max(found, key=lambda row: row.short / row.step)
    title = Title(
        "A recurrent cell is called {} times per step: short operators take {}",
        (Value(round(worst.cells), "count"), Value(worst.short, "ns")),
    )
    part = OF_LSTM if worst.lstm_cells >= worst.cells / 2 else OF_OTHERS
    yield loop_finding(run, worst, title, _ADVICE, tuple(row.rank for row in found), part)


def example(synth: Synth, fixed: bool) -> None:
    loop_example(synth, fixed, "aten::lstm_cell", left=19)


RULE = Rule(check=check, example=example, explains="host-bound")
