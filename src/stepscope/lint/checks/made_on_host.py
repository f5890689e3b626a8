"""A tensor is made on the host and copied to the device in every training step.

`torch.zeros(...).to(device)` fills host memory, then copies it. With `device=` the tensor is created on the device.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, dotted

__all__ = ["CHECK"]

_MAKERS = ("zeros", "ones", "full", "empty", "arange", "rand", "randn", "randint", "eye", "linspace")


def find(script: Script) -> Iterator[Hit]:
    for call in script.step_calls if script.on_device else ():
        match call.func:
            case ast.Attribute(attr="to" | "cuda", value=ast.Call() as made) if _fills(made):
                what = f"`{script.code(call)}` is made on the host, then copied"
                fix = f"{dotted(made.func)}(..., device=device)"
                yield hit_at(call, what, fix)


def _fills(made: ast.Call) -> bool:
    module, _, name = dotted(made.func).rpartition(".")
    return module == "torch" and name in _MAKERS and argument(made, "device") is None


CHECK = Check(
    find=find,
    example="""\
for x, y in loader:
    mask = torch.ones(x.shape[0], 128).to("cuda")
    criterion(model(x, mask), y).backward()
""",
    fixed="""\
for x, y in loader:
    mask = torch.ones(x.shape[0], 128, device="cuda")
    criterion(model(x, mask), y).backward()
""",
)
