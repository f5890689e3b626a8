"""Gradients are exchanged after each of several batches of one optimizer step.

With DistributedDataParallel each `backward()` starts an all-reduce. When the optimizer steps only every few batches,
all exchanges but the last are wasted: `model.no_sync()` skips them.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, dotted, last_name

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    names = {last_name(call.func) for call in script.calls}
    if not names & {"DistributedDataParallel", "DDP"} or "no_sync" in names or _switched(script):
        return
    for call in script.step_calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and _steps_seldom(script, call):
            what = "gradients are exchanged after every batch, the optimizer steps every few"
            fix = "with model.no_sync():  # in all batches but the last"
            yield hit_at(call, what, fix)


def _switched(script: Script) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "require_backward_grad_sync" for node in ast.walk(script.tree)
    )


def _steps_seldom(script: Script, backward: ast.Call) -> bool:
    """Whether the loop calls the optimizer below `if … % …`."""
    loop = next((outer for outer in script.above(backward) if outer in script.steps), None)
    guards = (node for node in ast.walk(loop) if isinstance(node, ast.If)) if loop is not None else ()
    return any(_counts(guard.test) and any(map(_is_step, ast.walk(guard))) for guard in guards)


def _counts(test: ast.expr) -> bool:
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


def _is_step(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and "optim" in dotted(node.func) and dotted(node.func).endswith(".step")


CHECK = Check(
    find=find,
    example="""\
model = DistributedDataParallel(model)
for number, (x, y) in enumerate(loader, 1):
    criterion(model(x), y).backward()
    if number % 4 == 0:
        optimizer.step()
""",
    fixed="""\
model = DistributedDataParallel(model)
for number, (x, y) in enumerate(loader, 1):
    with model.no_sync() if number % 4 else nullcontext():
        criterion(model(x), y).backward()
    if number % 4 == 0:
        optimizer.step()
""",
)
