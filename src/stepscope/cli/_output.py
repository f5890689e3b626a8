"""Where the output of a command goes: standard output, or a file, here or elsewhere, written whole or not at all."""

import os
import sys
import tempfile
from pathlib import Path

from stepscope.core.errors import BadInput
from stepscope.core.paths import AnyPath, place

__all__ = ["check_output", "check_page", "format_for", "write_bytes", "write_text"]


_TEXT = ("", ".txt", ".log")
"""Endings of names of files that get the default format, which is for reading."""


def format_for(given: str | None, output: str | None, suffixes: dict[str, str], default: str) -> str:
    """The format asked for, else the one that the suffix of the output file means, else the default."""
    if given:
        return given
    suffix = Path(output).suffix.lower() if output else ""
    if suffix in suffixes:
        return suffixes[suffix]
    if suffix not in _TEXT and not Path(output or "").is_char_device():
        known = ", ".join((*_TEXT[1:], *suffixes))
        formats = ", ".join(dict.fromkeys((default, *suffixes.values())))
        raise BadInput(
            output, f"{suffix} is none of the formats",
            next_step=f"choose a name that ends in {known}, or a format with --format: {formats}",
        )  # fmt: skip
    return default


def check_output(output: str | None) -> None:
    """Raise BadInput for an output that cannot be written, before the work for it is done."""
    if output is None or output == "-":
        return
    target = place(output)
    if isinstance(target, Path):
        _check_folder(target)
    else:
        target.check_writable()


def check_page(output: str | None) -> None:
    """Raise BadInput for a page that was not built with this installation, or that a terminal would get."""
    from stepscope.render.app_page import app_file

    app_file("app.js")
    if output in (None, "-") and sys.stdout.isatty():
        raise BadInput(
            "standard output", "is a terminal, and a page is for a browser", next_step="write a file: -o report.html"
        )


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
    target = place(output)
    if isinstance(target, Path):
        _write_here(data, target)
        return
    try:
        target.write_bytes(data)
    except BadInput as error:
        raise _kept(data, target, error) from error


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise BadInput(path, f"there is no folder {path.parent}", next_step=f"mkdir -p {path.parent}")


def _write_here(data: bytes, path: Path) -> None:
    _check_folder(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a device or a pipe: /dev/stdout, /dev/null
            return
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        raise BadInput(path, f"cannot be written: {error.strerror}", next_step="choose another file with -o") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _kept(data: bytes, target: AnyPath, error: BadInput) -> BadInput:
    """The error of an upload, with the place of a copy on this machine: the analysis need not be done again."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="stepscope-", suffix=f"-{target.name}")
        with open(descriptor, "wb") as file:
            file.write(data)
    except OSError:
        return error
    return BadInput(target, f"not written: {error.why}", next_step=f"A copy is kept in {name}\n{error.next_step}")
