"""A progress bar is drawn too often.

## What it finds
CPU jobs that spend more than 5 % of the steps in tqdm, rich, alive_progress or progressbar.

## Why it costs time
Drawing formats the line and writes it to the terminal, and `set_postfix` draws at once. A step of a millisecond does
not have that time.

## What to do
Draw at most once a second: `mininterval=1`. Call `set_postfix` every 100th step, with `refresh=False`.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
Long steps never notice a progress bar; the rule is silent then.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example

__all__ = ["RULE"]

_FRAMES = r"^(tqdm|rich|alive_progress|progressbar)[/.]"
_ADVICE = (
    Advice(
        text="Draw once a second, and change the text without drawing",
        code="for batch in tqdm(loader, mininterval=1):\n"
        "    ...\n"
        "    if step % 100 == 0:\n"
        "        bar.set_postfix(loss=float(loss), refresh=False)",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    yield from called_code(run, "The progress bar at {} takes {} per step ({})", _ADVICE, _FRAMES)


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="bar.set_postfix(loss=value)", expression="bar.set_postfix(loss=value)",
        call="tqdm/std.py:1420 set_postfix", leaf="tqdm/std.py:460 print_status",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
