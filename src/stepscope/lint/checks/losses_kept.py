"""A loss is kept with its graph.

`total += loss` and `losses.append(loss)` keep the graph of every step, so memory grows and backward may walk all of
them. Keep `loss.detach()`.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for node in ast.walk(script.tree):
        kept = _kept(node)
        if kept is not None and kept.id in script.losses and script.in_every_step(node):
            what = f"`{script.code(node)}` keeps the graph of every step"
            yield hit_at(kept, what, f"{kept.id}.detach()")


def _kept(node: ast.AST) -> ast.Name | None:
    """The name whose value is added or appended."""
    match node:
        case ast.AugAssign(op=ast.Add(), target=ast.Name(id=total), value=ast.Name() as value) if total != value.id:
            return value
        case ast.Call(func=ast.Attribute(attr="append"), args=[ast.Name() as value]):
            return value
        case _:
            return None


CHECK = Check(
    find=find,
    example="""\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss
""",
    fixed="""\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.detach()
""",
)
