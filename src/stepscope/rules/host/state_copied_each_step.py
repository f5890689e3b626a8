"""The loop copies the model, or another large object, in every step.

## What it finds
CPU jobs that spend more than 5 % of the steps in `copy.deepcopy`.

## Why it costs time
`copy.deepcopy(model.state_dict())` copies every parameter, through Python. Called to keep the best model, it runs even
where the next step is better still.

## What to do
Copy only if the validation loss is the best so far. Copy into tensors that exist: `torch._foreach_copy_`. For a moving
average of the weights use `torch.optim.swa_utils.AveragedModel`.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.9 to 1.8 times of it, as a copy drives the model out of the
caches. Measured: 0.9 to 2.2 times.

## When it is wrong
An algorithm that changes the copy (an inner loop of meta-learning) needs one each time.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example

__all__ = ["RULE"]

EVICTS = 1.6  # times the copy, at most: the model's data leave the caches with it; measured 0.9 to 2.2 times
_FRAMES = r"^copy\.py:\d+ (deepcopy|copy|_deepcopy_\w+|_reconstruct)"
_CALLS = r"\bdeepcopy\("
_ADVICE = (
    Advice(
        text="Copy only a model that is better than the best so far",
        code="if validation_loss < best:\n    best = validation_loss\n    state = copy.deepcopy(model.state_dict())",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    yield from called_code(run, "Copying objects at {} takes {} per step ({})", _ADVICE, _FRAMES, _CALLS, EVICTS)


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="best = copy.deepcopy(model.state_dict())", expression="copy.deepcopy(model.state_dict())",
        call="copy.py:128 deepcopy", leaf="copy.py:227 _deepcopy_dict",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
