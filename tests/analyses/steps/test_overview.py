"""What the workload is, its mean step, and which devices of the host it uses."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.lib.devices_used import device_facts, devices_named, devices_used
from stepscope.analyses.steps.overview import overview
from stepscope.analyses.steps.step_breakdown import CAUSES
from stepscope.analyses.steps.step_breakdown_mean import step_breakdown_mean
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run

CAUSE = {
    "Kernel": "kernel", "Memcpy": "memcpy", "Memset": "memset", "Communication": "communication", "Runtime": "runtime",
    "DataLoader": "dataloader", "CPU Exec": "cpu_exec", "Other": "other",
}  # fmt: skip
# The plugin computes in microseconds as floats, and rounds each step's parts before the mean.
ROUNDED_US = 2
FLOAT_GRID = {"hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace"}


def facts(run: Run) -> dict[str, object]:
    rows = overview(run).iter_rows(named=True)
    return {row["what"]: row["text"] if row["text"] is not None else row["value"] for row in rows}


def test_facts_of_a_run() -> None:
    synth = Synth().add("processes", framework="torch 2.13.0", python="3.11.9", host="n0", world_size=4, threads=2)
    synth.add("loaders", loader=0, train=True, batch_size=32, num_workers=4, dataset="pkg.Images")
    synth.add("loaders", loader=1, train=False, batch_size=64, num_workers=0)
    synth.add("optimizers", name="Adam", elements=1000)
    for step in range(5):
        synth.step(step, 100 * step, 100 * step + 50, samples=32)
    found = facts(synth.run())
    assert found == {
        "framework": "torch 2.13.0", "Python": "3.11.9", "host": "n0", "ranks opened": 1, "ranks of the job": 4,
        "threads of operators": 2, "batch size": 32, "loader workers": 4, "data set": "pkg.Images", "optimizer": "Adam",
        "parameters of each rank": 1000, "steps that means are over": 2, "mean step": 50 * MS,
        "mean samples of a step and rank": 32, "mean backward calls of a step": 1, "rows recorded: steps": 5,
    }  # fmt: skip


def test_options_that_the_profiler_leaves_out_are_off() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 1).add("processes", source="t")
    for key, value in (("with_stack", "1"), ("cuda_runtime_version", "12040"), ("hip_driver_version", "60443483")):
        synth.add("meta", source="t", key=key, value=value)
    synth.add("meta", source="t", key="distributedInfo", value=json.dumps({"nccl_version": "2.21.5"}))
    found = facts(synth.run())
    assert (found["profiler option with_stack"], found["profiler option record_shapes"]) == ("on", "off")
    assert (found["CUDA runtime"], found["NCCL"]) == ("12.4", "2.21.5")
    assert found["HIP driver"] == "6.4.43483"


@pytest.mark.parametrize("header", ["", "[]", "3", "{"])
def test_a_header_can_hold_anything(header: str) -> None:
    synth = Synth().add("processes", source="t").add("meta", source="t", key="distributedInfo", value=header)
    assert facts(synth.run()) == {"ranks opened": 1}


def host_of_eight(synth: Synth, rank: int, host: str | None) -> None:
    synth.add("processes", rank=rank, host=host)
    for device in range(8):
        synth.add("devices", rank=rank, device=device, name="A100", memory=80, capability="8.0")


def used(synth: Synth) -> list[tuple[object, ...]]:
    return devices_used(synth.run()).select("name", "listed", "used").rows()


def test_a_trace_lists_all_devices_of_its_host() -> None:
    synth = Synth()
    host_of_eight(synth, 0, "n0")
    synth.kernel(0, 1, device=3)
    assert used(synth) == [("A100", 8, 1)]


def test_ranks_of_one_host_list_the_same_devices() -> None:
    synth = Synth()
    for rank, host in ((0, "n0"), (1, "n0"), (2, "n1")):
        host_of_eight(synth, rank, host)
        synth.kernel(0, 1, device=rank % 2, rank=rank)
    assert used(synth) == [("A100", 16, 3)]


def test_ranks_that_see_one_device_each_have_their_own() -> None:
    synth = Synth()
    for rank in (0, 1):
        synth.add("processes", rank=rank, host="n0").add("devices", rank=rank, device=0, name="H100")
        synth.kernel(0, 1, rank=rank)
    assert used(synth) == [("H100", 2, 2)]


def test_a_device_under_another_number_is_one_of_those_described() -> None:
    """ROCm counts the processors too: the first GPU of a host with two processors is number 2 in events."""
    synth = Synth().kernel(0, 1, device=2).add("devices", device=0, name="MI300X")
    assert used(synth) == [("MI300X", 1, 1)]
    assert device_facts(synth.run()).select("device", "name").rows() == [(0, "MI300X"), (2, "MI300X")]
    synth.add("devices", device=1, name="MI210")
    assert used(synth) == [("MI210", 1, 0), ("MI300X", 1, 0), (None, 1, 1)]
    assert device_facts(synth.run())["name"].to_list() == ["MI300X", "MI210", None]


def test_devices_are_listed_once_under_the_number_of_their_description() -> None:
    synth = Synth().kernel(0, 1, device=9).add("devices", device=0, name="MI300X")
    assert devices_named(synth.run()).rows() == [(0, 0, "MI300X")]
    synth.kernel(0, 1, device=3, rank=1)
    assert devices_named(synth.run()).rows() == [(0, 0, "MI300X"), (1, 3, None)]


def test_devices_of_one_model_are_listed_together_although_the_driver_takes_a_part_of_one() -> None:
    synth = Synth().kernel(0, 1)
    for device, memory in enumerate((34084028416, 34087305216, 34087305216, 16 * 2**30)):
        synth.add("devices", device=device, name="V100", memory=memory)
    found = devices_used(synth.run()).select("name", "memory", "listed", "used").rows()
    assert found == [("V100", 34084028416, 3, 1), ("V100", 16 * 2**30, 1, 0)]


def test_devices_that_no_trace_watched() -> None:
    assert used(Synth().add("devices", device=0, name="H200")) == [("H200", 1, None)]
    assert used(Synth().add("devices", device=0, name="H200").host("aten::mm", "operator", 0, 1)) == [("H200", 1, 0)]
    assert used(Synth().kernel(0, 1)) == [(None, 1, 1)]
    assert used(Synth()) == []


def test_the_mean_step() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("ProfilerStep#1", "annotation", 100, 160)
    synth.host("aten::mm", "operator", 10, 30).host("aten::mm", "operator", 110, 120)
    (row,) = step_breakdown_mean(synth.run()).iter_rows(named=True)
    assert (row["steps"], row["duration"], row["cpu_exec"], row["other"]) == (2, 80.0 * MS, 15.0 * MS, 65.0 * MS)
    assert row["cpu_exec_share"] == pytest.approx(15 / 80)
    assert sum(row[f"{cause}_share"] for cause in (*CAUSES, "other")) == pytest.approx(1)


def test_a_mean_needs_steps() -> None:
    with pytest.raises(MissingData):
        step_breakdown_mean(Synth().add("processes").run())


def test_the_plugins_average(corpus: Path) -> None:
    answers = corpus / "golden" / "tb"
    compared = []
    for file in sorted(answers.rglob("*.json")):
        name, golden = str(file.relative_to(answers)).removesuffix(".json"), json.loads(file.read_text())
        if "average_step" in golden and name not in FLOAT_GRID:
            compare_average(corpus, name, golden)
            compared.append(name)
    assert len(compared) == 19


def compare_average(corpus: Path, name: str, golden: dict[str, Any]) -> None:
    (trace,) = (corpus / "traces").glob(f"{name}.json*")
    (row,) = step_breakdown_mean(open_run(trace)).iter_rows(named=True)
    expected = golden["average_step"]
    assert row["duration"] / 1000 == pytest.approx(expected["total"], abs=ROUNDED_US), name
    for cause, mean in expected.items():
        if cause in CAUSE and cause not in golden.get("left_out", ()):
            column = CAUSE[cause]
            assert row[column] / 1000 == pytest.approx(mean["us"], abs=ROUNDED_US), (name, cause)
            assert 100 * row[f"{column}_share"] == pytest.approx(mean["percent"], abs=0.02), (name, cause)


def test_every_fact_says_which_table_tells_it(gpu_run: Run) -> None:
    table = overview(gpu_run)
    assert table["source"].null_count() == 0
    assert table.select((pl.col("text").is_null() != pl.col("value").is_null()).all()).item()
    assert (table["value"].is_null() == table["unit"].is_null()).all()


def test_an_old_profiler_writes_no_options() -> None:
    synth = Synth().add("processes", source="t").add("meta", source="t", key="schemaVersion", value="1")
    assert not any(what.startswith("profiler option") for what in facts(synth.run()))
