"""The compiled part that watches calls, in every Python that it must load in."""

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.collect import fields

from .test_probe_injection import OTHER_PYTHONS, other_python

NATIVE = Path(fields.__file__).parent / "native_hooks.abi3.so"
SCRIPT = Path(__file__).parent / "jobs" / "watched_calls.py"

pytestmark = pytest.mark.skipif(fields.compiled is None, reason="the compiled hooks are not built")


@pytest.mark.parametrize("version", ["", *OTHER_PYTHONS])
def test_calls_are_watched_from_outside_in_every_python(version: str) -> None:
    python = other_python(version) if version else sys.executable
    done = subprocess.run([python, "-X", "dev", SCRIPT, NATIVE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
