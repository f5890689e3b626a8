"""A Python file as the checks see it: its syntax tree, and what in it runs in every training step.

A training loop is the innermost loop around a call of `.backward()`. A function with such a call and no loop around it
is a step, too. What stands below an `if` may run seldom, so it is not taken to run in every step.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Script", "argument", "dotted", "is_constant", "last_name", "names_in", "parsed"]

_GUARDS = (ast.If, ast.IfExp, ast.ExceptHandler, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Script:
    """A file: its path, text and tree."""

    path: str
    text: str
    tree: ast.Module

    def line(self, number: int) -> str:
        """The text of a line, from 1."""
        return self._lines[number - 1] if 0 < number <= len(self._lines) else ""

    def code(self, node: ast.AST) -> str:
        """The text of a node on one line."""
        return " ".join((ast.get_source_segment(self.text, node) or "").split())

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the innermost first."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    @cached_property
    def losses(self) -> frozenset[str]:
        """Names on which `.backward()` is called."""
        return frozenset(
            call.func.value.id
            for call in self._backwards
            if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        )

    @cached_property
    def steps(self) -> tuple[ast.AST, ...]:
        """Training loops, and functions that are one step."""
        return tuple(dict.fromkeys(filter(None, map(self._step_of, self._backwards))))

    def in_every_step(self, node: ast.AST) -> bool:
        """Whether a node runs in each training step."""
        for outer in self.above(node):
            if outer in self.steps:
                return not (isinstance(outer, (ast.For, ast.AsyncFor)) and node in ast.walk(outer.iter))
            if isinstance(outer, _GUARDS):
                return False
        return False

    @cached_property
    def step_calls(self) -> tuple[ast.Call, ...]:
        """Calls that run in each training step."""
        return tuple(call for call in self.calls if self.in_every_step(call))

    @cached_property
    def on_device(self) -> bool:
        """Whether the file speaks of an accelerator."""
        words = ("cuda", "xpu", "mps")
        constants = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Constant))
        named = any(isinstance(value, str) and value.partition(":")[0] in words for value in constants)
        return named or any(isinstance(node, ast.Attribute) and node.attr in words for node in ast.walk(self.tree))

    def made(self, name: str) -> Iterator[ast.Call]:
        """Calls whose result is assigned to a name."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Assign(targets=targets, value=ast.Call() as call) if name in map(dotted, targets):
                    yield call

    def methods(self, name: str) -> Iterator[ast.FunctionDef]:
        """Methods of a name, of all classes of the file."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef):
                yield from (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name)

    @cached_property
    def loaders(self) -> tuple[ast.Call, ...]:
        """Calls of DataLoader whose arguments are all written out."""
        made = (call for call in self.calls if last_name(call.func) == "DataLoader")
        return tuple(
            call for call in made
            if all(word.arg for word in call.keywords) and not any(isinstance(one, ast.Starred) for one in call.args)
        )  # fmt: skip

    def loops_over(self, loader: ast.Call) -> Iterator[ast.For]:
        """Training loops that take batches from a loader, be it named or made in their head."""
        parent = self._parents.get(loader)
        targets = parent.targets if isinstance(parent, ast.Assign) else []
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        for step in self.steps:
            if isinstance(step, ast.For) and (names & names_in(step.iter) or loader in ast.walk(step.iter)):
                yield step

    @cached_property
    def _backwards(self) -> tuple[ast.Call, ...]:
        return tuple(
            call for call in self.calls if isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
        )

    def _step_of(self, call: ast.Call) -> ast.AST | None:
        for outer in self.above(call):
            if isinstance(outer, (ast.For, ast.AsyncFor, ast.While, *_FUNCTIONS)):
                return outer
        return None

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.splitlines()


def parsed(path: str, text: str) -> Script:
    """Raises SyntaxError or ValueError for what is no Python."""
    return Script(path, text, ast.parse(text))


def dotted(node: ast.AST) -> str:
    """`torch.cuda.synchronize` of such a node; of `self.model().eval` the last names, `.eval`; else empty."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{dotted(node.value)}.{node.attr}"
        case _:
            return ""


def last_name(node: ast.AST) -> str:
    """`synchronize` of `torch.cuda.synchronize`."""
    return dotted(node).rpartition(".")[2]


def is_constant(node: ast.AST | None, value: object) -> bool:
    """Whether it is written out as `value`, True or False."""
    return isinstance(node, ast.Constant) and node.value is value


def names_in(node: ast.AST) -> set[str]:
    """Plain names that a node uses."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument by its name or its position; None: it is not given."""
    named = next((word.value for word in call.keywords if word.arg == name), None)
    if named is None and position is not None and len(call.args) > position:
        return call.args[position]
    return named
