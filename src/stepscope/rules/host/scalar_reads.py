"""Single values of tensors are read one by one in Python.

## What it finds
CPU jobs that spend more than 5 % of the steps in lines that read values: `.item()`, `.tolist()`,
`float(tensor)`, and in loops over `.tolist()`.

## Why it costs time
Each value costs an operator or two and a Python object, some 3 µs, and a loop reads thousands. On a GPU each read also
waits for the device; see blocking-sync.

## What to do
Compute on the whole tensor, and read the result once. Stack what is to be read into one tensor, and read it every
50th step.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
An algorithm that decides by a value in each step has to read it. One read per step costs nothing that matters here.
"""

from collections.abc import Iterator
from dataclasses import replace

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_example
from stepscope.models.sampled_code import sampled_code

__all__ = ["RULE"]

_CALLS = r"\.(item|tolist)\(\)|\bfloat\(\w+(\[|\.)"
_LOOPS = r"\.tolist\(\)"  # what a loop over single values does with them goes with it
_WHOLE = "Compute on the whole tensor instead of on single values, then read the result once"
_ADVICE = (
    Advice(
        text=_WHOLE,
        code="values = torch.stack([value.norm() for value in tensors])  # one tensor\n"
        "if step % 50 == 0:\n    log(values.tolist())",
    ),
)
_COUNT_ADVICE = (
    Advice(text=_WHOLE, code="right = (scores.argmax(dim=1) == labels).sum()  # of all rows at once\nright.item()"),
)


def check(run: Run) -> Iterator[Finding]:
    for finding in sampled_code(
        run, "Reading single values at {} takes {} per step ({})", _ADVICE, calls=_CALLS, loops=_LOOPS
    ):
        counts = "argmax" in finding.where[0].text
        yield replace(finding, advice=_COUNT_ADVICE) if counts else finding


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="if scores[row].argmax().item() == labels[row].item():",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
