"""`nn.DataParallel` drives several devices from one process.

It copies the model in every step, and its threads share one GIL. DistributedDataParallel has a process for each device.
"""

from collections.abc import Iterator

from stepscope.lint.check import Check, Hit
from stepscope.lint.script import Script, dotted

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        if dotted(call.func).rpartition(".")[2] == "DataParallel":
            what = "DataParallel copies the model to every device in every step"
            fix = "torch.nn.parallel.DistributedDataParallel(model), started by torchrun"
            yield Hit(line=call.lineno, column=call.col_offset + 1, what=what, fix=fix)


CHECK = Check(
    find=find,
    example="model = nn.DataParallel(model)\n",
    fixed="model = nn.parallel.DistributedDataParallel(model)\n",
)
