"""Write a large output piece by piece: packed if its name ends in .gz, and whole or not at all."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from isal import igzip

from stepscope.core.errors import BadInput

__all__ = ["write_pieces"]

_LEVEL = 2  # of 0 to 3: traces become about a tenth, at hundreds of MB a second


def write_pieces(pieces: Iterator[bytes], output: str) -> None:
    """Write to a local file, whose folder is made if it is missing, or to standard output for `-`. Raises BadInput."""
    if output == "-":
        _write(pieces, sys.stdout.buffer, packed=False)
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(exist_ok=True)
        if path.exists() and not path.is_file():
            with path.open("wb") as file:  # a device or a pipe: /dev/null
                _write(pieces, file, packed=False)
            return
        with unfinished.open("wb") as file:
            _write(pieces, file, packed=path.suffix == ".gz")
        unfinished.replace(path)
    except OSError as error:
        raise BadInput(path, f"cannot be written: {error.strerror}", next_step="choose another file with -o") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _write(pieces: Iterator[bytes], file: BinaryIO, *, packed: bool) -> None:
    if not packed:
        file.writelines(pieces)
        return
    with igzip.IGzipFile(filename="", fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0) as stream:  # type: ignore[no-untyped-call]
        for piece in pieces:
            stream.write(piece)  # type: ignore[no-untyped-call]
