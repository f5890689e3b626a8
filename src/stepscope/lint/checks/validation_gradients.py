"""Validation runs with gradient recording on.

A function that calls `model.eval()` and loops over batches, without `torch.no_grad()` or `torch.inference_mode()`,
keeps activations for a backward pass that never comes.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, dotted, last_name

__all__ = ["CHECK"]

_WITHOUT = ("no_grad", "inference_mode", "set_grad_enabled")


def find(script: Script) -> Iterator[Hit]:
    for function in ast.walk(script.tree):
        if not isinstance(function, ast.FunctionDef) or _records_none(script, function):
            continue
        turned = next(filter(_is_eval, ast.walk(function)), None)
        loops = any(isinstance(node, ast.For) and node.lineno > _line(turned) for node in ast.walk(function))
        if isinstance(turned, ast.Call) and loops and not _trains(function):
            what = f"{function.name}() evaluates the model and records gradients"
            yield hit_at(turned, what, "with torch.inference_mode():")


def _is_eval(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "eval"
        and not node.args
    )


def _line(node: ast.AST | None) -> int:
    return getattr(node, "lineno", 0)


def _trains(function: ast.FunctionDef) -> bool:
    """Whether it goes back to training in the same function, or computes gradients."""
    attributes = {node.attr for node in ast.walk(function) if isinstance(node, ast.Attribute)}
    return "backward" in attributes or "grad" in attributes


def _records_none(script: Script, function: ast.FunctionDef) -> bool:
    """Whether gradients are off in it, or wherever it is called."""
    if any(last_name(node) in _WITHOUT for node in ast.walk(function)):
        return True
    calls = [call for call in script.calls if last_name(call.func) == function.name]
    return bool(calls) and all(_is_without(script, call) for call in calls)


def _is_without(script: Script, call: ast.Call) -> bool:
    items = (item for outer in script.above(call) if isinstance(outer, ast.With) for item in outer.items)
    called = (dotted(item.context_expr.func) for item in items if isinstance(item.context_expr, ast.Call))
    return any(name.rpartition(".")[2] in _WITHOUT for name in called)


CHECK = Check(
    find=find,
    example="""\
def validate(model, loader):
    model.eval()
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum()
""",
    fixed="""\
@torch.inference_mode()
def validate(model, loader):
    model.eval()
    for x, y in loader:
        right += (model(x).argmax(1) == y).sum()
""",
)
