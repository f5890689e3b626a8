"""`CUDA_LAUNCH_BLOCKING` makes the host wait for every kernel.

It is meant for finding the call that caused a device error.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, dotted

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for node in ast.walk(script.tree):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=value, slice=ast.Constant(value="CUDA_LAUNCH_BLOCKING"))],
                value=ast.Constant(value="1"),
            ) if dotted(value).endswith("environ"):
                what = "CUDA_LAUNCH_BLOCKING=1 makes the host wait for every kernel"
                yield hit_at(node, what, "remove it after debugging")


CHECK = Check(
    find=find,
    example='os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n',
    fixed='os.environ["CUDA_LAUNCH_BLOCKING"] = "0"\n',
)
