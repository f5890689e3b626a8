"""Timer, phases, host work, cost of tracing and use of the machine."""

import pytest

from stepscope.analyses.device.device_summary import device_summary
from stepscope.analyses.host.host_work import host_work
from stepscope.analyses.steps.phases import phases
from stepscope.analyses.steps.timer import timer
from stepscope.analyses.steps.tracing_cost import tracing_cost
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth


def probe_steps(*durations: float, wait: float | None = 10, samples: int | None = 8) -> Synth:
    synth = Synth()
    for step, duration in enumerate((500, 500, 500, *durations)):
        synth.step(step, 1000 * step, 1000 * step + duration, data_wait=wait, samples=samples)
    return synth


def test_the_timer_of_steady_steps() -> None:
    assert timer(probe_steps(40, 80, 40).run()).row(0, named=True) == {
        "rank": 0, "steps": 3, "left_out": 3,
        "reader_cost_avg": 10.0 * MS, "reader_cost_max": 10 * MS, "reader_cost_min": 10 * MS,
        "batch_cost_avg": pytest.approx(160 / 3 * MS), "batch_cost_max": 80 * MS, "batch_cost_min": 40 * MS,
        "ips_avg": pytest.approx(24 / 0.160), "ips_max": pytest.approx(200), "ips_min": pytest.approx(100),
        "reader_ratio": pytest.approx(30 / 160),
    }  # fmt: skip


def test_the_timer_does_not_know_what_was_not_observed() -> None:
    (row,) = timer(probe_steps(40, 80, wait=None, samples=None).run()).iter_rows(named=True)
    unknown = {name for name, value in row.items() if value is None}
    assert unknown == {f"{of}_{how}" for of in ("reader_cost", "ips") for how in ("avg", "max", "min")} | {
        "reader_ratio"
    }


def test_the_average_never_exceeds_the_longest_step() -> None:
    """Paddle's own average does, with 11 steps by a factor of two."""
    (row,) = timer(probe_steps(40).run()).iter_rows(named=True)
    assert row["batch_cost_min"] == row["batch_cost_avg"] == row["batch_cost_max"] == 40 * MS


def test_phases_on_the_host() -> None:
    synth = Synth()
    for step, forward in enumerate((0, 0, 0, 30, 50)):
        synth.step(step, 100 * step, 100 * step + 100, data_wait=20, forward=forward)
    table = phases(synth.run())
    columns = ("phase", "calls", "cpu_total", "cpu_avg", "cpu_max", "cpu_min", "cpu_ratio", "gpu_total")
    assert table.select(columns).rows()[:2] == [
        ("Dataloader", 2, 40 * MS, 20.0 * MS, 20 * MS, 20 * MS, 0.2, None),
        ("Forward", 2, 80 * MS, 40.0 * MS, 50 * MS, 30 * MS, 0.4, None),
    ]
    assert table["cpu_ratio"].sum() == pytest.approx(1)


def test_phases_without_a_loader_know_no_data_wait() -> None:
    table = phases(probe_steps(40, wait=None).run())
    assert table.select("phase", "calls", "cpu_total").rows()[0] == ("Dataloader", 0, None)


def test_device_time_of_a_phase_is_the_union_of_what_it_launched(gpu_run: Run) -> None:
    table = phases(gpu_run)
    device = {row["phase"]: row for row in table.iter_rows(named=True) if row["rank"] == 0}
    assert {phase: row["gpu_total"] for phase, row in device.items()} == {
        "Dataloader": 0, "Forward": 50 * MS, "Backward": 40 * MS, "Optimization": 0, "Others": 4 * MS
    }  # fmt: skip
    forward = device["Forward"]
    assert (forward["gpu_avg"], forward["gpu_max"], forward["gpu_ratio"]) == (
        25.0 * MS,
        25 * MS,
        pytest.approx(50 / 94),
    )
    assert table.filter(table["rank"] == 2)["gpu_total"].to_list() == [None] * 5


def test_host_work_tells_operators_from_the_rest(gpu_run: Run) -> None:
    rows = [row[1:] for row in host_work(gpu_run).iter_rows() if row[0] == 0]
    assert rows == [
        ("data_wait", 40 * MS, 0, 40 * MS, 0),
        ("forward", 60 * MS, 20 * MS, 40 * MS, 2),
        ("backward", 40 * MS, 40 * MS, 0, 2),
        ("optimizer", 30 * MS, 0, 30 * MS, 0),
        ("other", 30 * MS, 12 * MS, 18 * MS, 2),
    ]


def test_operators_of_other_threads_work_for_backward_only() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    synth.host("autograd::engine::evaluate_function: MmBackward0", "operator", 50, 70, thread="2")
    synth.host("aten::mm", "operator", 0, 100, thread="3").host("aten::mm", "operator", 10, 20)
    rows = {row["phase"]: row for row in host_work(synth.run()).iter_rows(named=True)}
    assert [rows[phase]["in_operators"] for phase in ("forward", "backward")] == [10 * MS, 20 * MS]
    assert rows["forward"]["launches"] is None  # nothing tells of a device


def test_host_work_needs_a_trace() -> None:
    with pytest.raises(MissingData, match="--trace"):
        host_work(probe_steps(40).run())


def test_the_cost_of_tracing() -> None:
    synth = Synth()
    for step in range(8):
        traced = step in (5, 6)
        synth.step(step, 1000 * step, 1000 * step + (150 if traced else 100), tags=("traced",) if traced else ())
    for window, status in enumerate(("recorded", "abandoned")):
        reason = "too many events" if status == "abandoned" else None
        synth.add("windows", window=window, status=status, reason=reason, cost=3 * MS)
    assert tracing_cost(synth.run()).row(0, named=True) == {
        "rank": 0, "untraced_step": 100.0 * MS, "traced_step": 150.0 * MS, "slowdown": 1.5, "start_stop": 6 * MS,
        "windows": 2, "steps": 2, "status": "abandoned", "reason": "too many events",
    }  # fmt: skip


def test_a_window_that_never_opened_has_no_slowdown() -> None:
    synth = probe_steps(40).add("windows", window=0, status="stood back", reason="the script profiles itself")
    (row,) = tracing_cost(synth.run()).iter_rows(named=True)
    assert (row["traced_step"], row["slowdown"], row["start_stop"], row["steps"]) == (None, None, None, 0)
    assert (row["status"], row["reason"]) == ("stood back", "the script profiles itself")


def test_use_of_the_machine() -> None:
    synth = Synth()
    for time, cores in enumerate((1.0, 2.0, 1.5)):
        synth.add("system", time=time, what="job CPU", value=cores, unit="cores")
    synth.add("system", time=0, what="GPU 0 utilization", value=0.5, unit="ratio")
    assert device_summary(synth.run()).rows() == [
        ("job CPU", "cores", 3, 1.5, 2.0, 1.0),
        ("GPU 0 utilization", "ratio", 1, 0.5, 0.5, 0.5),
    ]
