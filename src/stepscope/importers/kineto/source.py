"""The text of a trace file: gzip told by content, damage at the end repaired, every encoding that JSON may come in."""

import codecs
import gzip
import io
import zlib
from collections.abc import Callable

from stepscope.core.errors import BadInput
from stepscope.core.paths import AnyPath, look_again

__all__ = [
    "BAD_CHECKSUM", "BYTES_BEHIND", "REPLACED", "Note", "check_packing", "damage_of", "decoded", "read_text",
    "replaced_in",
]  # fmt: skip

Note = Callable[[str, int], None]
"""Called with the reason and the count of something that was left out or repaired."""

REPLACED = "bytes that are not UTF-8: shown as replacement characters"
"""Told of bytes that could not be decoded."""

_PIECE = 1 << 20
_GZIP = b"\x1f\x8b"
_WIDE = ((codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
         (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))  # fmt: skip
BAD_CHECKSUM = "the gzip checksum is wrong: contents may be damaged"
"""Told of a gzip stream that unpacks to something else than was packed."""

BYTES_BEHIND = "bytes after the gzip stream: not read"
"""Told of a gzip stream that is not the last thing in its file."""

_AGAIN = (
    "Write the trace again (a process that is killed while it exports leaves such a file), "
    "or record one with `stepscope run -- COMMAND`."
)
_UNPACKED_FREELY = 128 << 20  # bytes, which cost little time and memory whatever they are
_MOST_PACKED = 100  # times; traces pack 12 to 25 times, and what is made to fill a disk or a memory up to 1,000 times
_BEGINNING = 64 * 1024  # bytes that tell a text from anything else
_PARTLY = ": what could be unpacked was read"


def read_text(path: AnyPath, note: Note) -> str:
    """Return the text of `path`. Damage that could be repaired goes to `note`; raises BadInput if nothing is left."""
    try:
        raw = _raw(path)
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise BadInput(path, reason, next_step=look_again(path)) from error
    if raw.startswith(_GZIP):
        raw = _unpacked(path, raw, note)
    if not raw:
        raise BadInput(path, "the file is empty (0 bytes)", next_step=_AGAIN)
    return decoded(raw, note)


def check_packing(path: AnyPath, unpacked: int, packed: int) -> None:
    """Raise BadInput for a gzip stream that unpacks to far more than any trace does."""
    if unpacked > max(_UNPACKED_FREELY, _MOST_PACKED * packed):
        why = f"the gzip stream unpacks to more than {_MOST_PACKED} times its size, so it is no trace"
        raise BadInput(path, why, where=f"byte {packed} of the packed file", next_step=_AGAIN)


def _raw(path: AnyPath) -> bytes:
    """The bytes of a file; of one that begins like no text of JSON only the beginning, which tells what it is."""
    with path.open("rb") as file:
        start: bytes = file.read(_BEGINNING)
        marked = start.startswith((_GZIP, *(mark for mark, _ in _WIDE)))
        text = start.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n\0")
        if marked or not text or text.startswith((b"{", b"[")):
            return start + bytes(file.read())
        return start


def _unpacked(path: AnyPath, packed: bytes, note: Note) -> bytes:
    pieces: list[bytes] = []
    damage, size, source = "", 0, io.BytesIO(packed)
    with gzip.GzipFile(fileobj=source) as stream:
        try:
            while piece := stream.read1(_PIECE):
                pieces.append(piece)
                size += len(piece)
                check_packing(path, size, source.tell())
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            damage = damage_of(error)
    if not pieces:
        raise BadInput(
            path,
            damage.removesuffix(_PARTLY) or "the gzip stream holds nothing",
            where=f"byte {len(packed)} of the packed file",
            next_step=_AGAIN,
        )
    if damage:
        note(damage, 1)
    return b"".join(pieces)


def damage_of(error: EOFError | gzip.BadGzipFile | zlib.error) -> str:
    """What is wrong with a gzip stream whose reading ended so."""
    if isinstance(error, EOFError):
        return f"the gzip stream ends too early{_PARTLY}"
    if isinstance(error, zlib.error):
        return f"the gzip stream is damaged{_PARTLY}"
    checksum = "CRC" in str(error) or "length" in str(error)
    return BAD_CHECKSUM if checksum else BYTES_BEHIND


def decoded(raw: bytes, note: Note) -> str:
    """The text of the bytes of a document; bytes that are not UTF-8 are replaced and counted."""
    for mark, encoding in _WIDE:
        if raw.startswith(mark):
            return raw.decode(encoding, "replace")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
        note(REPLACED, replaced_in(raw))
        return text


def replaced_in(raw: bytes) -> int:
    """How many replacement characters stand for bytes of `raw` that are not UTF-8."""
    return raw.decode("utf-8", "replace").count("\ufffd") - raw.count("\ufffd".encode())
