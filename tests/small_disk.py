"""A real disk that is soon full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["mounted"]


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A file system with so much room ("64k") at a new folder. Skips the test where it cannot be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "stepscope-test", str(folder)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
