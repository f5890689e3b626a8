"""What a run without source keeps of a line: the kind of statement and the names it calls, `for tqdm(`, `.item(`.

The kinds of time are told apart by them. Names of the user's variables and texts are left out. Of what a call is made
on, only a module stays.
"""

from __future__ import annotations

import re
import sys

__all__ = ["called_names"]

_TEXT = re.compile(r"\"(?:[^\"\\]|\\.)*(?:\"|$)|'(?:[^'\\]|\\.)*(?:'|$)|#.*")
_STATEMENT = re.compile(r"\s*(async for|async with|for|while|if|elif|with|assert|return|yield)\b")
_CALL = re.compile(r"([\w.]+)\s*\(")
_MODULES = frozenset(("np", "plt", "pd", "sns", "cv", "F", "nn", "functional"))  # as they are commonly called
_SOME_NAME = "_"
_LONGEST = 400  # characters that are looked at


def called_names(text: str) -> str:
    """The statement and the calls of a line of source, or of an expression; `_` for one that is a name alone."""
    text = _TEXT.sub("", text[:_LONGEST]).strip()
    if text.isidentifier():
        return _SOME_NAME
    statement = _STATEMENT.match(text)
    told = [statement.group(1)] if statement else []
    for chain in _CALL.findall(text, statement.end() if statement else 0):
        root, dot, _ = chain.partition(".")
        name = chain.rpartition(".")[2]
        if name.isidentifier():
            module = root if dot and (root in _MODULES or root in sys.modules) else ""
            told.append(f"{module}{dot}{name}(")
    return " ".join(told)
