"""Autograd's anomaly detection is on.

It checks every gradient and records a stack for every operator. It is for debugging alone.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit
from stepscope.lint.script import Script, argument, dotted

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        name = dotted(call.func).rpartition(".")[2]
        if name in ("set_detect_anomaly", "detect_anomaly") and _is_on(call, name) and not _optional(call, script):
            what = "anomaly detection is on: every operator records a stack"
            yield Hit(line=call.lineno, column=call.col_offset + 1, what=what, fix="remove it after debugging")


def _is_on(call: ast.Call, name: str) -> bool:
    mode = argument(call, "mode", 0)
    return name == "detect_anomaly" or (isinstance(mode, ast.Constant) and mode.value is True)


def _optional(call: ast.Call, script: Script) -> bool:
    return any(isinstance(outer, ast.If) for outer in script.above(call))


CHECK = Check(
    find=find,
    example="torch.autograd.set_detect_anomaly(True)\n",
    fixed="torch.autograd.set_detect_anomaly(False)\n",
)
