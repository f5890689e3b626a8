"""Where the output of a command goes: standard output, or a file that is written whole or not at all."""

import os
import sys
from pathlib import Path

from stepscope.core.errors import BadInput

__all__ = ["format_for", "write_bytes", "write_text"]


def format_for(given: str | None, output: str | None, suffixes: dict[str, str], default: str) -> str:
    """The format asked for, else the one that the suffix of the output file means, else the default."""
    if given:
        return given
    return suffixes.get(Path(output).suffix.lower(), default) if output else default


def write_text(text: str, output: str | None) -> None:
    """Write to a file, or to standard output if `output` is None or -. Raises BadInput."""
    if output is None or output == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_bytes(text.encode("utf-8", "backslashreplace"), output)


def write_bytes(data: bytes, output: str | None) -> None:
    """As `write_text`, for a format that is not text."""
    if output is None or output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    if not path.parent.is_dir():
        raise BadInput(output, f"there is no folder {path.parent}", next_step=f"mkdir -p {path.parent}")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a device or a pipe: /dev/stdout, /dev/null
            return
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise BadInput(
            output, f"cannot be written: {error.strerror}", next_step="choose another file with -o"
        ) from error
