"""Time of devices against HolisticTraceAnalysis, for traces in microseconds (it rounds nanoseconds away).

HTA leaves the last of several steps out: it keeps the host events that start before it and the device work they
launched. Its non-compute time is stepscope's exposed communication plus exposed copies.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.device_time import device_time
from stepscope.core.run import Run
from stepscope.store import open_run

US = 1000
TRACES = (
    "hta/trace_diff/control",
    "hta/with_gpu_user_annotation/step_based_trace_2543932",
    pytest.param("kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace", marks=pytest.mark.slow),
    pytest.param("kineto/resnet50_num_workers_4/worker0.1623212756351.pt.trace", marks=pytest.mark.slow),
    pytest.param("param/linear_kineto", marks=pytest.mark.slow),
)


@pytest.mark.parametrize("name", TRACES)
def test_one_rank(corpus: Path, name: str) -> None:
    golden = json.loads((corpus / "golden" / "hta" / f"{name}.json").read_text())
    compare(open_run(corpus / "traces" / f"{name}.json.gz"), golden, 0)


@pytest.mark.parametrize("rank", [0, 1])
def test_two_ranks(corpus: Path, rank: int) -> None:
    golden = json.loads((corpus / "golden/hta/hta/sampled_2ranks.json").read_text())
    compare(open_run(corpus / f"traces/hta/sampled_2ranks/sampled_rank-{rank}.json.gz"), golden, rank)


def compare(run: Run, golden: dict[str, Any], rank: int) -> None:
    (row,) = device_time(without_last_step(run)).iter_rows(named=True)
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


def without_last_step(run: Run) -> Run:
    host, device = run.optional("host"), run.optional("device")
    steps = host.filter(pl.col("name").str.starts_with("ProfilerStep#"))
    if steps.height < 2:
        return run
    kept = host.filter(pl.col("start") < steps["start"].max())
    return Run({"host": kept, "device": device.join(kept, on="correlation", how="semi")})
