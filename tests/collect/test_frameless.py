"""Hooks without a frame, in every Python there is: they are set up in the interpreter's own memory."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PYTHONS = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"))


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_they_are_called_as_functions_are(version: str) -> None:
    found = [path for path in PYTHONS if path.parts[-3].startswith(f"{version}.")]
    own = "{}.{}".format(*sys.version_info[:2]) == version
    if not found and not own:
        pytest.skip(f"no Python {version}")
    command = [sys.executable if own else str(found[0]), str(Path(__file__).with_name("frameless.py")), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    if done.stdout != "no compiled hooks\n":
        assert done.stdout == f"frames {3 if version == '3.11' else 2} True step\n"
