"""Idle time, launches and counters of real traces: the exact values, and the answers of HTA and the plugin."""

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.device.copy_bandwidth import copy_bandwidth
from stepscope.analyses.device.gpu_counters import gpu_counters
from stepscope.analyses.device.idle import idle
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.device.kernel_sequences import kernel_sequences
from stepscope.analyses.device.launches import launches
from stepscope.analyses.device.lib.device_gaps import CAUSES
from stepscope.analyses.device.queue_length import queue_length
from stepscope.analyses.device.stream_idle import stream_idle
from stepscope.analyses.operators.operator_delays import operator_delays
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.storage import open_run

from ..hta import CONTROL, SMALL, STEP_BASED, as_hta_keeps_it, golden_of, ranks_of, trace_of

pytestmark = pytest.mark.slow

US = 1000


def test_gaps_are_the_exact_idle_time(corpus: Path, golden_trace: str) -> None:
    golden = json.loads((corpus / "golden" / golden_trace).read_text())
    run = open_run(corpus / "traces" / golden["trace"])
    expected = {int(device): values["idle_ns"] for device, values in golden["devices"].items()}
    try:
        gaps = idle_gaps(run)
    except MissingData:
        assert not expected
        return
    found = dict(gaps.group_by("device").agg(pl.col("duration").sum()).iter_rows())
    assert {device: found.get(device, 0) for device in expected} == expected
    by_cause = dict(idle(run).group_by("device").agg(pl.col("total").sum()).iter_rows())
    assert {device: by_cause.get(device, 0) for device in expected} == expected
    assert (gaps.select(pl.sum_horizontal(CAUSES)).to_series() == gaps["duration"]).all()


@ranks_of(*SMALL)
def test_streams_and_launches_of_one_rank(corpus: Path, name: str, trace: str, rank: int) -> None:
    compare(open_run(corpus / "traces" / trace), golden_of(corpus, name), rank)


def compare(run: Run, golden: dict[str, Any], rank: int) -> None:
    kept = as_hta_keeps_it(run)
    idle_of = {row["stream"]: row for row in stream_idle(kept).iter_rows(named=True)}
    for part in golden["idle_time_breakdown"]["rows"]:
        if part["rank"] == rank:
            row = idle_of[str(part["stream"])]
            split = {cause: row[cause] // US for cause in ("host_wait", "kernel_wait", "other")}
            assert {"total": row["idle"] // US, **split} == {
                "total": part["idle_total_us"], "host_wait": 0, "kernel_wait": 0, "other": 0, **part["by_category_us"],
            }  # fmt: skip
    (expected,) = [part for part in golden["cuda_kernel_launch_stats"] if part["rank"] == rank]
    table = launches(kept)
    assert table["calls"].sum() == expected["launches"]
    assert table["host_total"].sum() // US == expected["cpu_duration_sum_us"]
    assert table["device_total"].sum() // US == expected["gpu_duration_sum_us"]
    delay = table.select((pl.col("delay_mean") * pl.col("calls")).sum() / pl.col("calls").sum()).item()
    assert delay / US == pytest.approx(expected["launch_delay_mean_us"])


def test_queues_copies_and_sequences_are_those_of_hta(corpus: Path) -> None:
    """What HTA 0.6.1 gives for this trace; of aten::linear the sequences of which it finds all calls."""
    run = as_hta_keeps_it(open_run(trace_of(corpus, CONTROL)))
    changes = queue_length(run).group_by("stream").agg(pl.len(), pl.col("length").max())
    assert sorted(changes.iter_rows()) == [("20", 466, 10), ("21", 100, 2), ("22", 240, 22), ("7", 14326, 287)]
    most = copy_bandwidth(run).group_by("copy").agg(pl.col("bandwidth").max())
    assert dict(most.iter_rows()) == {
        "DtoD": pytest.approx(934.013921), "DtoH": pytest.approx(3.708333), "HtoD": pytest.approx(11.696848),
        "memset": pytest.approx(693.389474),
    }  # fmt: skip
    linear = kernel_sequences(run).filter(pl.col("called_by") == "aten::linear")
    found = set(linear.select("calls", pl.col("device_total") // US, pl.col("host_total") // US).iter_rows())
    assert found >= {
        (35, 420, 1960), (10, 2306, 635), (10, 986, 1123), (10, 400, 614), (5, 1132, 286), (5, 167, 325), (5, 195, 378),
        (5, 122, 379),
    }  # fmt: skip


def test_delays_of_operators_are_those_of_hta(corpus: Path) -> None:
    """What HTA 0.6.1 gives: calls, delay to the launch and from there to the kernel in µs; it leaves copies out."""
    run = open_run(trace_of(corpus, STEP_BASED))
    rows = operator_delays(run).filter(pl.col("operator") != "aten::copy_")
    found = [
        (row["operator"], row["calls"], row["launch_delay"] / US, row["start_delay"] / US)
        for row in rows.iter_rows(named=True)
    ]
    assert sorted(found) == [
        ("aten::add_", 50, 8.56, 9.66), ("aten::fill_", 30, pytest.approx(5.367, abs=1e-3), 10.9),
        ("aten::mean", 5, 15.8, 8.0), ("aten::mm", 5, 25.8, 10.4), ("aten::mm", 5, 30.6, 11.0),
        ("aten::mm", 15, 20.2, pytest.approx(9.467, abs=1e-3)), ("aten::mse_loss", 5, 32.8, 10.8),
        ("aten::mse_loss_backward", 5, 7.6, 7.8), ("aten::sigmoid", 5, 13.0, 9.0),
        ("aten::sigmoid_backward", 5, 13.2, 8.6),
    ]  # fmt: skip


def test_utilization_over_time_is_the_plugins(corpus: Path) -> None:
    """Of stretches in per cent; for SM efficiency its fixture holds ten times the blocks per SM of each kernel."""
    with gzip.open(corpus / "traces/kineto/test/gpu_metrics_expected.json.gz") as file:
        events = json.load(file)["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    busy, full = (
        [(event["ts"], event["args"][name]) for event in counters if name in event["args"]]
        for name in ("GPU Utilization", "Est. SM Efficiency")
    )
    expected = busy[2:-1]  # between the two points that set the axis, and the closing zero
    table = gpu_counters(open_run(corpus / "traces/kineto/test/gpu_metrics_input.json.gz")).filter(
        pl.col("device") == 0
    )
    assert table["start"].to_list() == [time * US for time, _ in expected]
    assert (100 * table["utilization"]).to_list() == [pytest.approx(value) for _, value in expected]
    area = sum(value / 10 * (after - time) for (time, value), (after, _) in pairwise(full[2:]))
    length = table["end"] - table["start"]
    assert (table["sm_efficiency"] * length).sum() / US == pytest.approx(area)
