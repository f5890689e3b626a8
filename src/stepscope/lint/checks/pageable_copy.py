"""Batches are copied to the device from pageable memory.

Without `pin_memory=True` in the DataLoader a copy to the device makes the host wait. With it, and with
`non_blocking=True` in the copy, the host goes on.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, names_in

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for loader in script.loaders if script.on_device else ():
        copies = [call for loop in script.loops_over(loader) for call in ast.walk(loop) if _copies(call, loop)]
        if copies and argument(loader, "pin_memory", 7) is None:
            what = f"`{script.code(copies[0])}` copies from pageable memory"
            fix = "DataLoader(..., pin_memory=True), and .to(device, non_blocking=True)"
            yield hit_at(loader, what, fix)


def _copies(node: ast.AST, loop: ast.For) -> bool:
    """Whether a part of the batch is moved."""
    match node:
        case ast.Call(func=ast.Attribute(attr="to" | "cuda", value=value)):
            return bool(names_in(value) & names_in(loop.target))
        case _:
            return False


_TRAINING = """
for x, y in loader:
    criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
"""
CHECK = Check(
    find=find,
    example=f"loader = DataLoader(photos, batch_size=32, num_workers=4){_TRAINING}",
    fixed=f"loader = DataLoader(photos, batch_size=32, num_workers=4, pin_memory=True){_TRAINING}",
)
