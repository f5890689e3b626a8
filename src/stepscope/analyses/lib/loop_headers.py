"""Which `for` or `while` a line of the user's is in, as far as the source lines that were kept tell."""

import re

from stepscope.analyses.lib.source_texts import source_around
from stepscope.core.run import Run

__all__ = ["loop_header"]

_LOOP = re.compile(r"\s*(?:async\s+for|for|while)\b|.*[\[({].*\bfor\b.*\bin\b")


def loop_header(run: Run, file: str, line: int) -> str:
    """The nearest head of a loop above the line and less indented, or the line itself where it holds a comprehension.

    Empty where none is among the lines kept around it.
    """
    first, lines = source_around(run, file, line)
    if not lines or not first <= line < first + len(lines):
        return ""
    own = lines[line - first]
    if " for " in own and _LOOP.match(own):
        return own.strip()
    for text in reversed(lines[: line - first]):
        if _LOOP.match(text) and _indent(text) < _indent(own) and text.partition("  #")[0].rstrip().endswith(":"):
            return text.strip()
    return ""


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
