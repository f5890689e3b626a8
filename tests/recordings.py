"""Jobs that several modules of tests read: each is recorded once, for all processes of the tests, and kept.

They lie in .cache/recorded-jobs, in a folder for what records: the recorder, Python and torch. Where one of these
changes, they are recorded anew. A test gets a copy of its own.
"""

import fcntl
import hashlib
import platform
import shutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path

__all__ = ["copy_of"]

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".cache" / "recorded-jobs"
RECORDS = ("src/stepscope/collect", "src/stepscope/run_format", "tests/light_torch")


def copy_of(name: str, *sources: Path, into: Path, record: Callable[[Path], object]) -> Path:
    """A copy at `into` of the run that `record(folder)` makes; `sources` are the files of the job."""
    kept = KEPT / _what_records() / f"{name}-{_digest(list(sources))}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with open(kept.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "whole").exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir()
            record(kept / "run")
            (kept / "whole").touch()
        shutil.copytree(kept / "run", into, symlinks=True)
    return into


@cache
def _what_records() -> str:
    """Of the sources, compiled ones too. What others have recorded is removed."""
    files = [file for folder in RECORDS for file in sorted((ROOT / folder).rglob("*")) if file.suffix != ".pyc"]
    state = f"{platform.python_version()} {version('torch')} {_digest(files)}"
    name = hashlib.sha256(state.encode()).hexdigest()[:16]
    for old in KEPT.glob("*"):
        if old.name != name:
            shutil.rmtree(old, ignore_errors=True)
    return name


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(f"{file.relative_to(ROOT)} {file.stat().st_size}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
