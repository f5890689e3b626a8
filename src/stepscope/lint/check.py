"""What a static check is, and running all of them on a file."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stepscope.core.plugins import PluginGroup
from stepscope.lint.script import Script

__all__ = ["CHECKS", "Check", "Hit", "hit_at", "hits"]

_IGNORED = re.compile(r"#\s*stepscope:\s*ignore(?:\[([\w, -]+)\])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A line that a check is about: line and column from 1, what is wrong in the file's own names, what to write."""

    line: int
    column: int
    what: str
    fix: str


def hit_at(node: ast.expr | ast.stmt, what: str, fix: str) -> Hit:
    """A hit at the start of a node."""
    return Hit(line=node.lineno, column=node.col_offset + 1, what=what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A named static check. Its page is the docstring of the module that defines it.

    `example` is code that it finds, `fixed` the same with the fix, in which it finds nothing.
    """

    find: Callable[[Script], Iterator[Hit]]
    example: str
    fixed: str


CHECKS = PluginGroup("lint.checks", Check)
"""All static checks."""


def hits(script: Script) -> list[tuple[str, Hit]]:
    """Name of the check and hit, by line; without lines that say `# stepscope: ignore`."""
    found = [(name, hit) for name, check in CHECKS.load().items() for hit in check.find(script)]
    kept = [(name, hit) for name, hit in found if not _ignored(script.line(hit.line), name)]
    return sorted(kept, key=lambda one: (one[1].line, one[1].column, one[0]))


def _ignored(line: str, name: str) -> bool:
    match = _IGNORED.search(line)
    return match is not None and (match[1] is None or name in re.split(r"[,\s]+", match[1]))
