"""DistributedDataParallel searches for unused parameters in every step.

`find_unused_parameters=True` walks the graph after each forward pass. Where every parameter gets a gradient it finds
nothing.
"""

from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, is_constant

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        value = argument(call, "find_unused_parameters")
        if value is not None and is_constant(value, True):
            what = "find_unused_parameters=True walks the graph in every step"
            fix = "leave it out, or static_graph=True"
            yield hit_at(value, what, fix)


CHECK = Check(
    find=find,
    example="model = DistributedDataParallel(model, find_unused_parameters=True)\n",
    fixed="model = DistributedDataParallel(model)\n",
)
