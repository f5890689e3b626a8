"""Autograd's anomaly detection is on.

It checks every gradient and records a stack for every operator. It is for debugging alone.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, is_constant, last_name

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        name = last_name(call.func)
        if name in ("set_detect_anomaly", "detect_anomaly") and _is_on(call, name) and not _optional(call, script):
            what = "anomaly detection is on: every operator records a stack"
            yield hit_at(call, what, "remove it after debugging")


def _is_on(call: ast.Call, name: str) -> bool:
    return name == "detect_anomaly" or is_constant(argument(call, "mode", 0), True)


def _optional(call: ast.Call, script: Script) -> bool:
    return any(isinstance(outer, ast.If) for outer in script.above(call))


CHECK = Check(
    find=find,
    example="torch.autograd.set_detect_anomaly(True)\n",
    fixed="torch.autograd.set_detect_anomaly(False)\n",
)
