"""A value of a tensor is read in every training step.

`.item()`, `.tolist()`, `.cpu()`, `.numpy()` and `float(loss)` wait until the device has computed the value. The host
cannot launch ahead meanwhile. Read every 50th step, or keep a sum on the device. Files that never name an accelerator
are skipped.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit
from stepscope.lint.script import Script

__all__ = ["CHECK"]

_READS = ("item", "tolist", "cpu", "numpy")
_BUILT_IN = ("float", "int", "print")


def find(script: Script) -> Iterator[Hit]:
    for call in script.step_calls if script.on_device else ():
        if _reads(call, script):
            what = f"`{script.code(call)}` waits for the device in every step"
            yield Hit(
                line=call.lineno, column=call.col_offset + 1, what=what, fix="if step % 50 == 0:  # read it there"
            )


def _reads(call: ast.Call, script: Script) -> bool:
    match call.func:
        case ast.Attribute(attr=name, value=value) if name in _READS and not call.args:
            inner = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _READS
            return not inner  # `.cpu().numpy()` waits once
        case ast.Name(id=name) if name in _BUILT_IN:
            return any(isinstance(one, ast.Name) and one.id in script.losses for one in call.args)
        case _:
            return False


CHECK = Check(
    find=find,
    example="""\
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
""",
    fixed="""\
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        losses.append(loss.item())
""",
)
