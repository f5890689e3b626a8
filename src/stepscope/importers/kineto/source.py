"""The text of a trace file: gzip told by content, damage at the end mended, every encoding that JSON may come in."""

import codecs
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path

from stepscope.core.errors import BadInput

__all__ = ["Note", "read_text"]

Note = Callable[[str, int], None]
"""Called with the reason and the count of something that was left out or mended."""

_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"
_WIDE = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
_BAD_CHECKSUM = "the gzip checksum is wrong: contents may be damaged"
_AGAIN = (
    "Write the trace again (a process that is killed while it exports leaves such a file), "
    "or record one with `stepscope run -- COMMAND`."
)


def read_text(path: Path, note: Note) -> str:
    """Return the text of `path`. Damage that could be mended goes to `note`; raises BadInput if nothing is left."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise BadInput(path, reason, next_step=f"Check it with `ls -ld {path}`.") from error
    if raw.startswith(_GZIP):
        raw = _unpacked(path, raw, note)
    if not raw:
        raise BadInput(path, "the file is empty (0 bytes)", next_step=_AGAIN)
    return _decoded(raw, note)


def _unpacked(path: Path, packed: bytes, note: Note) -> bytes:
    pieces: list[bytes] = []
    damage = ""
    with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
        try:
            while piece := stream.read1(_PIECE):
                pieces.append(piece)
        except EOFError:
            damage = "the gzip stream ends too early: what could be unpacked was read"
        except gzip.BadGzipFile as error:
            checksum = "CRC" in str(error) or "length" in str(error)
            damage = _BAD_CHECKSUM if checksum else "bytes after the gzip stream: not read"
        except zlib.error:
            damage = "the gzip stream is damaged: what could be unpacked was read"
    if not pieces:
        raise BadInput(
            path, damage or "the gzip stream holds nothing", where=f"byte {len(packed)} of the packed file",
            next_step=_AGAIN,
        )  # fmt: skip
    if damage:
        note(damage, 1)
    return b"".join(pieces)


def _decoded(raw: bytes, note: Note) -> str:
    for mark, encoding in _WIDE:
        if raw.startswith(mark):
            return raw.decode(encoding, "replace")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        replaced = text.count("\ufffd") - raw.count("\ufffd".encode())
        note("bytes that are not UTF-8: shown as replacement characters", replaced)
        return text
