"""What is longer than the terminal, through a pager: $PAGER, else less, which ends by itself if all fits after all."""

import io
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

__all__ = ["paged_output", "pager"]

_LESS = ("less", "-RFX")  # colors stay, one screen needs no key, and the text is left on the terminal


class _Terminal(io.StringIO):
    """Text for a terminal, so that it is drawn in its width and colors."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the terminal: an ASCII one gets no blocks."""
        return self._encoding

    def isatty(self) -> bool:
        return True


@contextmanager
def paged_output(terminal: TextIO) -> Iterator[TextIO]:
    """A stream whose text is shown on the terminal when the block ends, through a pager where it is longer."""
    text = _Terminal(terminal.encoding)
    yield text
    command = pager() if text.getvalue().count("\n") >= shutil.get_terminal_size().lines else ()
    if not command or not _shown(command, text.getvalue(), terminal):
        terminal.write(text.getvalue())
        terminal.flush()


def pager() -> tuple[str, ...]:
    """The command of $PAGER, else less; nothing where neither is there. An empty $PAGER asks for none."""
    asked = os.environ.get("PAGER")
    if asked is None:
        return _LESS if shutil.which(_LESS[0]) else ()
    try:
        words = tuple(shlex.split(asked))
    except ValueError:
        return ()
    return words if words and shutil.which(words[0]) else ()


def _shown(command: tuple[str, ...], text: str, terminal: TextIO) -> bool:
    """Whether the pager could be started; it may be left before the end of the text."""
    terminal.flush()
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
    except OSError:
        return False
    with suppress(BrokenPipeError):
        process.communicate(text.encode(terminal.encoding, "backslashreplace"))
    while process.poll() is None:
        with suppress(KeyboardInterrupt):  # Ctrl-C is for the pager, which must not be left behind
            process.wait()
    return True
