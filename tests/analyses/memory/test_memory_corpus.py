"""The memory views on real traces: the TensorBoard plugin's answers, and sums that must hold on every trace."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.memory.allocations import allocations
from stepscope.analyses.memory.lib.memory_events import memory_events
from stepscope.analyses.memory.lib.peak import UNRECORDED
from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_curve import memory_curve
from stepscope.analyses.memory.memory_operators import memory_operators
from stepscope.analyses.memory.memory_operators_by_step import memory_operators_by_step
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.storage import open_run

pytestmark = pytest.mark.slow

KB = 1024
MB = 1024**2
KEYS = ("increase_self", "allocated_self", "allocations_self", "increase_total", "allocated_total", "allocations_total")
NAMES = {
    "size_increase_kb": "increase_total", "self_size_increase_kb": "increase_self", "allocation_count":
    "allocations_total", "self_allocation_count": "allocations_self", "allocation_size_kb": "allocated_total",
    "self_allocation_size_kb": "allocated_self",
}  # fmt: skip
# The plugin takes a call inside one of its own name for none; its files say so for these.
MERGED_CALLS = {
    ("resnet50_num_workers_0", "aten::div"): (204, 198),
    ("resnet50_num_workers_4", "aten::div"): (12, 6),
    ("gloo_ddp2", "aten::sum"): (12, 9),
}
TRACES = (
    "kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "kineto/unit/test_memory_view.1.pt.trace.json",
    "local/cpu_conv_nw0/n0_17764.1795174226548957641.pt.trace.json.gz",
    "local/cpu_mlp/n0_17764.1795174225666190325.pt.trace.json.gz",
    "local/gloo_ddp2/n0_17976.1795174241058565631.pt.trace.json.gz",
    "particle_transformer/batch_size_128/hmoss-6a49xb_1987242.1733769848514071115.pt.trace.json.gz",
    "tracelens/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
    "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens/perf_model/normalization_layer_test.json.gz",
)


@pytest.fixture(params=TRACES)
def trace(request: pytest.FixtureRequest, corpus: Path) -> Run:
    return open_run(corpus / "traces" / request.param)


def test_what_lives_at_the_peak_is_all_in_the_events(trace: Run) -> None:
    """Level = what was there before + live blocks, with nothing left over: the pairing is right, and totals are."""
    held = memory_at_peak(trace)
    peaks = memory_peaks(trace)
    level = peaks.select(pl.coalesce("allocated", "rise").alias("level"), "device_type", "device")
    sums = held.group_by("device_type", "device").agg(pl.col("bytes").sum())
    both = level.join(sums, on=["device_type", "device"], nulls_equal=True)
    assert both["level"].to_list() == both["bytes"].to_list()
    assert UNRECORDED not in held["category"]
    assert (held["bytes"] > 0).all()
    curve = memory_curve(trace)
    highest = curve.group_by("device_type", "device").agg(pl.col("allocated").max())
    with_highest = peaks.join(highest, on=["device_type", "device"], nulls_equal=True)
    assert with_highest["allocated"].eq_missing(with_highest["allocated_right"]).all()


def test_operators_add_up_to_the_events(trace: Run) -> None:
    events = memory_events(trace)
    rows = memory_operators(trace)
    positive = events.filter(pl.col("bytes") > 0)
    assert rows["allocated_self"].sum() == positive["bytes"].sum()
    assert rows["allocations_self"].sum() == positive.height
    assert rows["increase_self"].sum() == events["bytes"].sum()
    try:
        by_step = memory_operators_by_step(trace)
    except MissingData:
        return
    assert by_step["allocated_self"].sum() == rows["allocated_self"].sum()


def test_every_event_is_in_the_allocations(trace: Run) -> None:
    events = memory_events(trace).filter(pl.col("address").is_not_null())
    if events.is_empty():
        with pytest.raises(MissingData):
            allocations(trace)
        return
    found = allocations(trace)
    assert found["start"].is_not_null().sum() == (events["bytes"] > 0).sum()
    assert found["end"].is_not_null().sum() == (events["bytes"] < 0).sum()
    assert (found["lifetime"].drop_nulls() >= 0).all()


def answers(corpus: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Traces with memory answers of the plugin: their path and the answers in bytes by device and operator."""
    for file in sorted((corpus / "golden" / "tb").rglob("*.json")):
        golden = json.loads(file.read_text())
        found = golden.get("memory_stats") or {
            device: {row["name"]: row for row in rows} for device, rows in golden.get("memory_by_operator", {}).items()
        }
        if found:
            yield _trace(corpus, golden["trace"]), found


def test_the_plugins_answers(corpus: Path) -> None:
    compared, differ = 0, set[tuple[object, ...]]()
    for path, devices in answers(corpus):
        rows = memory_operators(open_run(path)).iter_rows(named=True)
        ours = {(_device(row), row["name"]): row for row in rows}
        for device, operators in devices.items():
            for name, expected in operators.items():
                row = ours[device, name]
                for column, value, unit in _values(expected):
                    compared += 1
                    if abs(row[column] / unit - value) > (0.005001 if unit == KB else 0):
                        differ.add((path.parent.name, name, column, row[column] / unit, value))
    assert compared == 3486
    assert differ == {(*place, "calls", *values) for place, values in MERGED_CALLS.items()}


def test_the_plugins_peaks(corpus: Path) -> None:
    compared = 0
    for file in sorted((corpus / "golden" / "tb").rglob("*.json")):
        golden = json.loads(file.read_text())
        peaks = golden.get("memory_peak_mb")
        if not peaks:
            continue
        rows = memory_peaks(open_run(_trace(corpus, golden["trace"]))).iter_rows(named=True)
        ours = {_device(row): row["allocated"] for row in rows}
        for device, value in peaks.items():
            compared += 1
            assert ours[device] / MB == pytest.approx(value, abs=0.051)
    assert compared


def _trace(corpus: Path, name: str) -> Path:
    """Some answers name their trace without the end of its name."""
    names = (f"{name}{suffix}" for suffix in ("", ".json", ".json.gz", ".gz"))
    return next(path for path in (corpus / "traces" / found for found in names) if path.is_file())


def _device(row: dict[str, Any]) -> str:
    return row["device_type"] if row["device"] is None else f"GPU{row['device']}"


def _values(expected: Any) -> Iterator[tuple[str, float, int]]:
    """Column, the plugin's value, and its unit."""
    if isinstance(expected, list):
        yield from zip((*KEYS, "calls"), expected, (1,) * 7, strict=True)
        return
    yield "calls", expected["calls"], 1
    for key, column in NAMES.items():
        yield column, expected[key], KB if key.endswith("_kb") else 1
