"""DistributedDataParallel searches for unused parameters in every step.

`find_unused_parameters=True` walks the graph after each forward pass. Where every parameter gets a gradient it finds
nothing.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit
from stepscope.lint.script import Script, argument

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        value = argument(call, "find_unused_parameters")
        if isinstance(value, ast.Constant) and value.value is True:
            what = "find_unused_parameters=True walks the graph in every step"
            fix = "leave it out, or static_graph=True"
            yield Hit(line=value.lineno, column=value.col_offset + 1, what=what, fix=fix)


CHECK = Check(
    find=find,
    example="model = DistributedDataParallel(model, find_unused_parameters=True)\n",
    fixed="model = DistributedDataParallel(model)\n",
)
