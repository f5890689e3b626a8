"""A function of the page's source, run by node on cases of a test."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

__all__ = ["answers"]

APP = Path(__file__).parents[1] / "web-app"
ESBUILD = APP / "node_modules" / ".bin" / "esbuild"


def answers(source: str, runner: str, cases: object, folder: Path) -> Any:
    """What the script `runner` writes as JSON. It gets the path of `source` (in web-app/src), bundled, as its argument,
    and the cases as JSON on stdin. Skipped without node and the page's packages, which CI must have."""
    node = shutil.which("node")
    if node is None or not ESBUILD.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("node and web-app/node_modules are needed: python tools/build_page.py")
        pytest.skip("no node, or web-app/node_modules is not there: python tools/build_page.py")
    made, script = folder / "source.cjs", folder / "run.cjs"
    entry = APP / "src" / source
    subprocess.run([ESBUILD, entry, "--bundle", "--format=cjs", "--log-level=error", f"--outfile={made}"], check=True)
    script.write_text(runner)
    done = subprocess.run([node, script, made], input=json.dumps(cases), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
