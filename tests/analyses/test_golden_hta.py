"""Time of devices against HolisticTraceAnalysis, for traces in microseconds (it rounds nanoseconds away).

HTA leaves the last of several steps out: it keeps the host events that start before it and the device work they
launched. Its non-compute time is stepscope's exposed communication plus exposed copies.
"""

from pathlib import Path
from typing import Any

import pytest

from stepscope.analyses.device.device_time import device_time
from stepscope.core.run import Run
from stepscope.storage import open_run

from .hta import CONTROL, STEP_BASED, as_hta_keeps_it, golden_of, ranks_of

US = 1000


@ranks_of(CONTROL, STEP_BASED)
def test_one_rank(corpus: Path, name: str, trace: str, rank: int) -> None:
    compare(open_run(corpus / "traces" / trace), golden_of(corpus, name), rank)


def compare(run: Run, golden: dict[str, Any], rank: int) -> None:
    (row,) = device_time(as_hta_keeps_it(run)).iter_rows(named=True)
    (expected,) = [part for part in golden["temporal_breakdown"] if part["rank"] == rank]
    assert {
        "kernel_time_us": row["span"],
        "idle_time_us": row["idle"],
        "compute_time_us": row["compute_busy"],
        "non_compute_time_us": row["exposed_communication"] + row["exposed_memory"],
    } == {name: value * US for name, value in expected.items() if name.endswith("_us")}
    for part in golden.get("comm_comp_overlap", []):
        if part["rank"] == rank:
            hidden = 1 - row["exposed_communication"] / row["communication_busy"]
            assert 100 * hidden == pytest.approx(part["overlap_of_communication_pct"], abs=0.01)
