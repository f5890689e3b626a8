"""A Python loop works on one parameter after the other.

## What it finds
CPU jobs that spend more than 5 % of the steps in a loop over parameters, buffers, gradients or a
state dictionary: a moving average, hand-made clipping, norms.

## Why it costs time
Each small operator costs a microsecond or two, with Python around it. A model has hundreds of parameters, and each
needs several operators.

## What to do
`torch._foreach_*` takes all tensors in one call. For a moving average there is
`torch.optim.swa_utils.AveragedModel`, for clipping `torch.nn.utils.clip_grad_norm_`.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
With few large parameters memory limits, and the loop costs nothing; the share of the step is small then.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_example
from stepscope.models.sampled_code import sampled_code

__all__ = ["RULE"]

_LOOPS = r"\b(named_)?(parameters|buffers|children|modules)\(|state_dict|\bgrads?\b|\bparams\b|param_groups"
_ADVICE = (
    Advice(
        text="Update all tensors with one call",
        code="torch._foreach_lerp_(averages, list(model.parameters()), 1 - decay)  # a moving average\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)  # clipping",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    yield from sampled_code(run, "A loop over parameters at {} takes {} per step ({})", _ADVICE, loops=_LOOPS)


def example(synth: Synth, fixed: bool) -> None:
    synth.add("sources", file="/home/me/train.py", line=50, text="for name, parameter in model.named_parameters():")
    synth.add("sources", file="/home/me/train.py", line=51, text="    average[name] = decay * average[name]")
    called_example(
        synth, fixed, text="average[name] = decay * average[name]",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
