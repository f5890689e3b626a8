"""What a file holds, told without reading it where possible.

The content of a file is known by its size and the XXH3 hash (128 bits) of all its bytes: copied, moved and touched
files are the same, and no change of a byte goes unseen. Reading 1 GB for it takes a few tenths of a second, so the hash
is remembered for an absolute path together with what the system says about the file: size, times of the last change of
content and of the entry itself, number of the inode and of the device. The time of the entry's change (ctime) cannot be
set back, so a file that was edited and got its old time again is hashed again.

A file elsewhere would have to be fetched for that. It is known by its URL, its size and the version that its provider
gives (ETag, MD5 or generation); without one it is not known.
"""

import hashlib
import json
import os
import time
from dataclasses import astuple, dataclass
from pathlib import Path

import xxhash

from stepscope.core.paths import AnyPath

__all__ = ["Signature", "Version", "content_of", "mark_of", "recall", "remember", "signature_of"]

_PIECE = 1 << 20  # bytes read at once: in the processor's cache when they are hashed
_VERSIONS = ("ETag", "etag", "md5Hash", "generation", "Content-MD5")  # as fsspec's file systems pass them on
_WEAK = "W/"  # an ETag of a web server that may stay while bytes change (RFC 9110, 8.8.1)
_CLOCK = 2 * 10**9  # ns: the coarsest clock of a file system (FAT); a younger file may change with no time changing


@dataclass(frozen=True, slots=True)
class Signature:
    """What the system says about a file; times in ns."""

    size: int
    changed: int
    entry_changed: int
    inode: int
    device: int


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a file elsewhere: its size in bytes, and what stands for its content."""

    size: int
    content: str


def mark_of(path: AnyPath) -> Signature | Version | None:
    """What tells a file from a changed one, None where nothing does. Raises BadInput if a provider does not answer."""
    if isinstance(path, Path):
        return signature_of(path)
    try:
        details = path.stat().as_info()
    except FileNotFoundError:
        return None
    told = [str(details[name]) for name in _VERSIONS if details.get(name)]
    if not told or told[0].startswith(_WEAK) or not isinstance(details.get("size"), int):
        return None
    return Version(details["size"], xxhash.xxh3_128(json.dumps([str(path), *told]).encode()).hexdigest())


def signature_of(path: Path) -> Signature | None:
    """The signature of a regular file, None for anything else."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not os.path.isfile(path):
        return None
    return Signature(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


def content_of(path: Path) -> str:
    """The hash of a file's bytes. Raises OSError."""
    digest = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def recall(folder: Path, path: Path, signature: Signature) -> str | None:
    """The content of a file as `remember` noted it, None if it may have changed since."""
    try:
        known = json.loads(_note(folder, path).read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or known.get("signature") != list(astuple(signature)):
        return None
    content = known.get("content")
    return content if isinstance(content, str) else None


def remember(folder: Path, path: Path, signature: Signature, content: str) -> None:
    """Note the content of a file, unless it is so young that a change could go unseen. Raises OSError."""
    if time.time_ns() - max(signature.changed, signature.entry_changed) < _CLOCK:
        return
    note = _note(folder, path)
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = {"path": os.path.abspath(path), "signature": astuple(signature), "content": content}
    unfinished = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        unfinished.write_text(json.dumps(known), encoding="utf-8")
        unfinished.replace(note)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def _note(folder: Path, path: Path) -> Path:
    name = hashlib.blake2b(os.fsencode(os.path.abspath(path)), digest_size=16).hexdigest()
    return folder / f"{name}.json"
