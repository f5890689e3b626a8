"""What the page writes beside a track of values."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

APP = Path(__file__).parents[2] / "web-app"
ESBUILD = APP / "node_modules" / ".bin" / "esbuild"
RUNNER = """
const { summary } = require(process.argv[2]);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const told = cases.map(([unit, low, high]) => summary({ track: { unit } }, { low: [low], high: [high] }, {}));
process.stdout.write(JSON.stringify(told));
"""


def test_a_count_is_a_number_without_a_unit(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not ESBUILD.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("node and web-app/node_modules are needed: python tools/build_page.py")
        pytest.skip("no node, or web-app/node_modules is not there: python tools/build_page.py")
    made, runner = tmp_path / "paint.cjs", tmp_path / "run.cjs"
    source = APP / "src" / "timeline" / "paint.ts"
    subprocess.run([ESBUILD, source, "--bundle", "--format=cjs", "--log-level=error", f"--outfile={made}"], check=True)
    runner.write_text(RUNNER)
    cases = [("count", 0, 0), ("count", 0, 1000), ("ratio", 0, 0.5), ("cores", 0, 1.5), ("bytes", 0, 1024)]
    told = subprocess.run([node, runner, made], input=json.dumps(cases), capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == ["0", "0 – 1,000", "0 % – 50 %", "0 cores – 1.5 cores", "0 B – 1 KiB"]
