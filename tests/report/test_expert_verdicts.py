"""The verdict on real traces is that of a person who looked at each: expert_verdicts.csv, with the reason.

That person wrote before stepscope was asked, from figures of a script without anything of stepscope: unions of kernels,
copies, waits and operators within the marked steps. Limits are those of `bound`. Two answers stand where both are
right. `none`: nobody could tell from this file, so whatever is said of it is not judged here.
"""

import csv
from pathlib import Path

import pytest

from stepscope.core.errors import BadInput
from stepscope.report.diagnose import diagnose
from stepscope.storage import open_run

with open(Path(__file__).with_name("expert_verdicts.csv"), encoding="utf-8", newline="") as _file:
    ANSWERS = {row["trace"]: row["bound"].split("|") for row in csv.DictReader(_file)}
NOT_READ = ("nsys/", "paddle/")
"""Folders of formats that no importer reads."""

DIFFERENT = {"jax/plugins/profile/2026_11_20_11_43_14/n0.trace.json.gz": "unknown"}
"""XLA's events are read as they are: which of them are operators and steps is not known."""

JUDGED = [(trace, bounds) for trace, bounds in ANSWERS.items() if not {"none", "refuse"} & {bounds[0]}]


@pytest.mark.parametrize(("trace", "bounds"), JUDGED, ids=[trace for trace, _ in JUDGED])
def test_the_verdict_is_that_of_an_expert(corpus: Path, trace: str, bounds: list[str]) -> None:
    path = str(corpus / "traces" / trace)
    if trace.startswith(NOT_READ):
        with pytest.raises(BadInput):
            open_run([path])
        return
    right = {"unknown" if bound == "none" else bound for bound in bounds} | {DIFFERENT.get(trace, bounds[0])}
    assert diagnose(open_run([path])).verdict.bound in right


@pytest.mark.parametrize("trace", [trace for trace, bounds in ANSWERS.items() if bounds == ["refuse"]])
def test_what_is_no_trace_is_refused(corpus: Path, trace: str) -> None:
    with pytest.raises(BadInput):
        open_run([str(corpus / "traces" / trace)])
