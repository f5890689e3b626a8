"""`nn.DataParallel` drives several devices from one process.

It copies the model in every step, and its threads share one GIL. DistributedDataParallel has a process for each device.
"""

from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, last_name

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for call in script.calls:
        if last_name(call.func) == "DataParallel":
            what = "DataParallel copies the model to every device in every step"
            fix = "torch.nn.parallel.DistributedDataParallel(model), started by torchrun"
            yield hit_at(call, what, fix)


CHECK = Check(
    find=find,
    example="model = nn.DataParallel(model)\n",
    fixed="model = nn.parallel.DistributedDataParallel(model)\n",
)
