"""Hooks on modules or tensors take a good part of each step.

## What it finds
CPU jobs that spend more than 5 % of the steps in functions that the job registers as hooks: `register_forward_hook`,
`register_full_backward_hook`, `register_hook` and their like. The lines that register them were kept with the run.

## Why it costs time
A hook on every module runs some operators and Python for each layer, in every step. What it collects is mostly read
every hundredth step.

## What to do
Return at once in the steps whose values nobody reads. Or register hooks only for such a step, and remove them after it.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
A hook may be part of the method: gradient clipping, quantization, weight normalization.
"""

import re
from collections.abc import Iterator

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_example
from stepscope.models.sampled_code import sampled_code

__all__ = ["RULE"]

_REGISTERS = r"register_\w*hook\("
_NAMES = re.compile(r"[A-Za-z_]\w*")
_ADVICE = (
    Advice(
        text="Return at once in steps whose values nobody reads",
        code="def hook(module, inputs, output):\n    if step % 100:\n        return\n    ...  # what it does now",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    registered = setting_places(run, _REGISTERS)
    names = "|".join(
        sorted({name for place in registered for name in _NAMES.findall(place.text.partition("hook(")[2])})
    )
    if names:
        yield from sampled_code(run, "Hooks at {} take {} per step ({})", _ADVICE, functions=names)


def example(synth: Synth, fixed: bool) -> None:
    synth.add("sources", file="/home/me/train.py", line=20, text="layer.register_forward_hook(look)")
    called_example(
        synth, fixed, function="look", text="seen[name] = output.mean()",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
