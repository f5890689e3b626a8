"""Gradients are set to zeros instead of being dropped.

`zero_grad(set_to_none=False)` writes every gradient, and backward adds to it. Without the argument torch drops them.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit
from stepscope.lint.script import Script, argument

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        value = argument(call, "set_to_none")
        if isinstance(value, ast.Constant) and value.value is False:
            what = "gradients are written as zeros in every step"
            yield Hit(line=call.lineno, column=call.col_offset + 1, what=what, fix="zero_grad()")


CHECK = Check(
    find=find,
    example="optimizer.zero_grad(set_to_none=False)\n",
    fixed="optimizer.zero_grad()\n",
)
