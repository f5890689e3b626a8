"""Commands that a person can paste: with the path of the run that was opened."""

import re
from shlex import quote

from stepscope.render.format import plain

__all__ = ["path_argument", "with_path"]

_LIMIT = 2_000  # characters: a longer path is not shown
_COMMAND = re.compile(r"(?:(?<=`)|^)stepscope [^`]*")
_PLACE = re.compile(r"\b(?:RUN|PATH)\b")  # what stands for the path of the run in a command
_SEVERAL = re.compile(r" and \d+ more$")  # how a run of several paths is named: no command takes that


def path_argument(path: str, most: int = _LIMIT) -> str:
    """The path of a run as a word of a command; RUN where it is unknown, of several paths, or longer than `most`."""
    word = quote(plain(path, _LIMIT))
    return word if path and len(word) <= most and not _SEVERAL.search(path) else "RUN"


def with_path(words: str, path: str, most: int = _LIMIT) -> str:
    """Words with the path of the run in their commands, where it is known: `stepscope show kernels trace.json`."""
    known = path_argument(path, most)
    if known == "RUN":
        return words
    return _COMMAND.sub(lambda command: _PLACE.sub(lambda _: known, command[0]), words)
