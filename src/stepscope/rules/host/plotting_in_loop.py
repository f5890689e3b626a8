"""The training loop draws figures in every step.

## What it finds
CPU jobs that spend more than 5 % of the steps in matplotlib, seaborn or plotly.

## Why it costs time
A figure has to be laid out, rasterized and compressed, and training waits for it. Figures that are not closed also keep
their memory.

## What to do
Save the numbers, and draw after training or in another process. Or draw every 1,000th step, and close the figure.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
If the figures are the result, they must be drawn somewhere.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example

__all__ = ["RULE"]

_FRAMES = r"^(matplotlib|seaborn|plotly|PIL/ImageDraw)[/.]"
_CALLS = r"\b(plt|sns)\.|\.savefig\("
_ADVICE = (
    Advice(
        text="Keep the numbers, and draw after training",
        code='history.append(float(loss))  # in the loop\nnumpy.save("history.npy", history)',
    ),
    Advice(text="Or draw every 1,000th step", code="if step % 1000 == 0:\n    ...  # this line"),
)


def check(run: Run) -> Iterator[Finding]:
    yield from called_code(run, "Drawing at {} takes {} per step ({})", _ADVICE, _FRAMES, _CALLS)


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text='figure.savefig("loss.png")', expression='figure.savefig("loss.png")',
        call="matplotlib/figure.py:3490 savefig", leaf="matplotlib/backends/backend_agg.py:490 print_png",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
