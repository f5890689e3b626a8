"""The verdict on real traces is that of a person who looked at each: expert_verdicts.csv, with the reason.

The figures in the reasons are from a script of its own, of unions of kernels, waits and operators within the marked
steps, without anything of stepscope; the limits are those of `bound`. `none`: nobody could tell from this file.
"""

import csv
from pathlib import Path

import pytest

from stepscope.report.diagnose import diagnose
from stepscope.storage import open_run

with open(Path(__file__).with_name("expert_verdicts.csv"), encoding="utf-8", newline="") as _file:
    ANSWERS = [(row["trace"], row["bound"]) for row in csv.DictReader(_file)]


@pytest.mark.parametrize(("trace", "bound"), ANSWERS)
def test_the_verdict_is_that_of_an_expert(corpus: Path, trace: str, bound: str) -> None:
    found = diagnose(open_run([str(corpus / "traces" / trace)])).verdict
    assert found.bound == ("unknown" if bound == "none" else bound)
