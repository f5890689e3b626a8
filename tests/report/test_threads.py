"""The gate's tests compute with one thread, as most tables are small: with several the answers are the same."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ..command import command

TRACE = "kineto/resnet50_num_workers_4"
"""A trace with loader workers, operators and kernels: its tables are large enough to be divided among threads."""

pytestmark = pytest.mark.slow


def test_a_report_does_not_depend_on_the_number_of_threads(corpus: Path) -> None:
    reports = [_report(corpus / "traces" / TRACE, threads) for threads in (1, 4)]
    assert json.loads(reports[0])["verdict"]
    assert reports[0] == reports[1]


def _report(trace: Path, threads: int) -> str:
    environment = {**os.environ, "POLARS_MAX_THREADS": str(threads)}
    words = command("report", trace, "--format", "json", "--no-cache")
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
