"""Gradients are set to zeros instead of being dropped.

`zero_grad(set_to_none=False)` writes every gradient, and backward adds to it. Without the argument torch drops them.
"""

from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, is_constant

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        value = argument(call, "set_to_none")
        if value is not None and is_constant(value, False):
            what = "gradients are written as zeros in every step"
            yield hit_at(call, what, "zero_grad()")


CHECK = Check(
    find=find,
    example="optimizer.zero_grad(set_to_none=False)\n",
    fixed="optimizer.zero_grad()\n",
)
