"""The analysis `bound`: which of input, host, device, communication and memory limits a rank."""

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.host.lib.recording_cost import MEASURED
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

TRAIN = "/home/me/train.py"
MODEL: dict[str, Any] = {
    "call": "torch/nn/modules/module.py:1773 _call_impl",
    "leaf": "torch/nn/modules/conv.py:543 _conv_forward",
}
SHARES = ["input", "host", "device", "communication", "memory", "limit"]


def cpu_job(*, wait: float = 0, other: float = 0, steps: int = 20, rank: int = 0, tags: tuple[str, ...] = ()) -> Synth:
    """Steps of 100 ms whose forward, backward and optimizer fill what wait and other leave."""
    synth = Synth()
    model = 100 - wait - other
    for step in range(steps):
        synth.step(
            step, 100 * step, 100 * step + 100, data_wait=wait, forward=0.4 * model, backward=0.5 * model,
            optimizer=0.1 * model, rank=rank, tags=tags,
        )  # fmt: skip
    return synth


def sampled(synth: Synth, phase: str, weight: float, *, steps: int = 20, line: int = 7, **frames: object) -> Synth:
    """A sample of `weight` ms in each step."""
    for step in range(steps):
        synth.sample(step, 100 * step, weight, phase, TRAIN, line, function="main", **frames)
    return synth


def shares(run: Run) -> dict[str, object]:
    return bound(run).select(SHARES).row(0, named=True)


def close(found: dict[str, object], **expected: object) -> None:
    assert {name: found[name] for name in expected} == {
        name: pytest.approx(value, abs=1e-9) if isinstance(value, float) else value for name, value in expected.items()
    }


def test_a_job_that_computes_is_bound_by_the_device() -> None:
    synth = sampled(cpu_job(wait=2, other=1), "forward", 99, **MODEL)
    close(shares(synth.run()), input=0.02, host=0.01, device=0.97, communication=None, memory=None, limit="device")


@pytest.mark.parametrize(
    ("wait", "workers", "others", "expected"),
    [
        (8, 1, 0.0, (0.28, 0.72, 0.2, "input")),
        (8, 1, 0.15, (0.13, 0.87, 0.05, "input")),  # the rest may be the work of other programs
        (8, 0, 0.0, (0.08, 0.92, 0.0, "device")),  # training's own threads wait for each other
        (4, 1, 0.0, (0.04, 0.96, 0.0, "device")),  # workers that keep up may use the cores
    ],
)
def test_workers_that_cannot_keep_up_and_have_the_cores(
    wait: float, workers: int, others: float, expected: tuple[float, float, float, str]
) -> None:
    synth = sampled(cpu_job(wait=wait), "forward", 100 - wait, **MODEL)
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=workers)
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    for what, value in (("job CPU", 1.8), ("other CPU", others), ("core wait", 0.2)):
        synth.add("system", time=1_500_000_000, what=what, value=value, unit="cores")
    found = bound(synth.run()).select("input", "device", "cpu_contention", "limit").row(0)
    assert found == (*(pytest.approx(value, abs=1e-9) for value in expected[:3]), expected[3])


def test_waiting_for_the_loader() -> None:
    synth = sampled(cpu_job(wait=30), "forward", 70, **MODEL)
    close(shares(synth.run()), input=0.3, host=0.0, device=0.7, limit="input")


def test_other_time_is_the_host_s() -> None:
    synth = sampled(sampled(cpu_job(other=25), "forward", 75, **MODEL), "other", 25, text="log.flush()")
    close(shares(synth.run()), host=0.25, device=0.75, limit="host")


def test_operators_in_other_such_as_validation_are_computing() -> None:
    synth = sampled(sampled(cpu_job(other=25), "forward", 75, **MODEL), "other", 25, **MODEL)
    close(shares(synth.run()), host=0.0, device=1.0, limit="device")


def test_a_line_inside_forward_that_is_no_operator_is_the_host_s() -> None:
    synth = sampled(cpu_job(), "forward", 20, expression="time.sleep(0.02)")
    synth = sampled(synth, "backward", 80, line=8, call="torch/_tensor.py:600 backward")
    close(shares(synth.run()), host=0.2, device=0.8, limit="host")


def test_between_the_thresholds_a_step_is_balanced() -> None:
    synth = traced(sampled(cpu_job(wait=9, other=4), "forward", 87, **MODEL), operators=0.7)
    close(shares(synth.run()), input=0.09, host=0.04 + 0.103, device=0.767, limit="balanced")
    synth = traced(sampled(cpu_job(wait=9, other=4), "forward", 87, **MODEL), operators=0.9)
    close(shares(synth.run()), input=0.09, host=0.04 + 0.033, device=0.837, limit="device")


def traced(synth: Synth, *, operators: float) -> Synth:
    """A traced step of 100 ms whose forward (of 35 ms) is in operators for this share of it."""
    synth.step(20, 2000, 2100, data_wait=9, forward=35, backward=43, optimizer=9, tags=("traced",))
    synth.host("ProfilerStep#20", "annotation", 2000, 2100)
    synth.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", 2004, 2013)
    synth.host("aten::conv2d", "operator", 2013, 2013 + 35 * operators)
    synth.host("autograd::engine::evaluate_function: ConvolutionBackward0", "operator", 2048, 2091)
    synth.host("Optimizer.step#SGD.step", "annotation", 2091, 2100)
    synth.host("aten::_foreach_add_", "operator", 2091, 2100)
    return synth


def test_a_traced_window_tells_python_inside_the_model_from_operators() -> None:
    """Python between the operators of an eager model limits only when a fifth of the step is lost to it."""
    synth = traced(sampled(cpu_job(wait=9, other=4), "forward", 87, **MODEL), operators=0.3)
    close(shares(synth.run()), host=0.04 + 0.348 - 0.105, limit="host")


def test_a_traced_window_in_which_every_operator_is_tiny_tells_python_from_computing() -> None:
    synth = cpu_job()
    synth.host("ProfilerStep#20", "annotation", 2000, 2100)
    for at in range(2000, 2040):
        synth.host("aten::mul", "operator", at, at + 0.005)
    synth.host("autograd::engine::evaluate_function: MulBackward0", "operator", 2040, 2040.005)
    synth.host("autograd::engine::evaluate_function: MulBackward0", "operator", 2090, 2090.005)
    synth.host("Optimizer.step#SGD.step", "annotation", 2090.005, 2100)
    close(shares(synth.run()), host=1.0, device=0.0, limit="host")


def test_without_samples_and_trace_only_what_is_outside_the_model_is_known() -> None:
    found = bound(cpu_job(wait=2, other=1).run()).row(0, named=True)
    close(found, input=0.02, host=0.01, device=None, limit="unknown")
    assert "stepscope run --trace" in found["why_unknown"]
    assert found["how"] == RECORD_TRACE
    assert shares(cpu_job(wait=30).run())["limit"] == "input", "a wait needs no trace"


def test_an_unobserved_loader_is_unknown_and_not_zero() -> None:
    run = sampled(cpu_job(), "forward", 100, **MODEL).run()
    unseen = run.tables["steps"].with_columns(pl.lit(None, pl.Int64).alias("data_wait"))
    close(shares(Run({**run.tables, "steps": unseen})), input=None, limit="device")


def test_without_steps_says_how_to_record_them() -> None:
    with pytest.raises(MissingData, match="stepscope run"):
        bound(Synth().run())


def test_without_steps_says_why_there_are_none() -> None:
    synth = Synth().add("meta", source="run", key="no_steps", value="No step was recorded: nothing trained.")
    with pytest.raises(MissingData) as missing:
        bound(synth.run())
    assert missing.value.how == "No step was recorded: nothing trained."


def gpu_steps(count: int = 4) -> Iterator[tuple[Synth, float]]:
    synth = Synth()
    for step in range(count):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100)
        yield synth, 100.0 * step


def test_idle_time_of_a_gpu_falls_to_wait_sync_and_host() -> None:
    for synth, start in gpu_steps():
        synth.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", start, start + 20)
        synth.kernel(start + 20, start + 60)
        synth.kernel(start + 75, start + 100)
    close(
        shares(synth.run()), input=0.2, host=0.15, device=0.65, communication=0.0, memory=0.0, limit="input"
    )  # fmt: skip


def test_a_gpu_that_waits_for_nothing_but_launches_is_host_bound() -> None:
    for synth, start in gpu_steps():
        synth.kernel(start, start + 60)
        synth.kernel(start + 99, start + 100)
    close(shares(synth.run()), host=0.39, device=0.61, limit="host")


@pytest.mark.parametrize(("busy", "limit"), [(50, "host"), (65, "device"), (55, "host")])
def test_idle_time_after_a_launch_is_not_the_host_s(busy: int, limit: str) -> None:
    """A kernel is launched 80 ms into a step and starts 19 ms later: nothing in the trace was at work."""
    for synth, start in gpu_steps():
        synth.host("cudaLaunchKernel", "runtime", start + 79, start + 80, correlation=int(start) + 1)
        synth.kernel(start, start + busy)
        synth.kernel(start + 99, start + 100, correlation=int(start) + 1)
    found = bound(synth.run()).row(0, named=True)
    close(found, unexplained=0.19, host=(80 - busy) / 100, device=(busy + 1) / 100)
    assert found["limit"] == limit
    assert found["recording"] <= found["host"]


def test_exposed_communication_and_copies() -> None:
    for synth, start in gpu_steps():
        synth.kernel(start, start + 60)
        synth.kernel(start + 50, start + 85, "ncclDevKernel_AllReduce", stream="9")
        synth.kernel(start + 80, start + 100, "Memcpy HtoD (Pinned -> Device)", kind="memcpy", stream="8")
    close(shares(synth.run()), device=0.6, communication=0.25, memory=0.15, host=0.0, limit="communication")


@pytest.mark.parametrize("extra", [{"input_dims": "[[2, 2]]"}, {"call_stack": "train.py(3): main"}])
def test_a_trace_with_shapes_or_stacks_makes_a_run_host_bound_where_they_cost_less(extra: dict[str, str]) -> None:
    for synth, start in gpu_steps():
        synth.host("aten::mm", "operator", start, start + 1, **extra)
        synth.kernel(start, start + 40)
    found = bound(synth.run()).row(0, named=True)
    close(found, host=0.6, device=0.4, limit="host", likely=False)
    assert found["recording"] < 0.001
    assert found["slowed_by"] == ["shapes" if "input_dims" in extra else "stacks"]


@pytest.mark.parametrize(("cost", "limit", "likely"), [(10, "host", False), (20, "host", True), (30, "device", True)])
def test_a_limit_that_hangs_by_the_cost_of_recording_is_likely(
    monkeypatch: pytest.MonkeyPatch, cost: int, limit: str, likely: bool
) -> None:
    """30 of 100 ms are idle, with 20 of them taken off 10 of 80. The only operators are the marks of the steps."""
    monkeypatch.setitem(MEASURED, "operator", cost * MS)
    for synth, start in gpu_steps():
        number = int(start)
        synth.host("cudaLaunchKernel", "runtime", start + 30, start + 30.1, correlation=number)
        synth.kernel(start + 30, start + 100, correlation=number)
    found = bound(synth.run()).row(0, named=True)
    assert (found["limit"], found["likely"]) == (limit, likely)
    assert found["recording"] == pytest.approx(cost / 100, abs=0.01)


def test_untraced_steps_tell_what_the_host_costs_when_nobody_traces() -> None:
    """Kernels take 60 of 100 ms while traced, and an untraced step is 75 ms long: 15 ms of idle time, not 40."""
    for synth, start in gpu_steps():
        synth.host("aten::mm", "operator", start, start + 1, input_dims="[[2, 2]]")
        synth.kernel(start, start + 60)
        synth.kernel(start + 99.999, start + 100)
    for step in range(10, 20):
        synth.step(step, 75 * step, 75 * step + 75, forward=30, backward=40, optimizer=5, device_duration=75)
    found = shares(synth.run())
    close(found, host=pytest.approx(0.2, abs=0.001), device=pytest.approx(0.8, abs=0.001))


def test_a_device_that_lags_behind_the_host_works_for_the_steps_that_launched_it() -> None:
    """The host launches four steps in 40 ms; the device is busy with them for 400 ms."""
    synth = Synth()
    for step in range(4):
        synth.host(f"ProfilerStep#{step}", "annotation", 10 * step, 10 * step + 10)
        synth.kernel(100 * step, 100 * step + 100)
    found = bound(synth.run()).row(0, named=True)
    close(found, step=100e6, device=1.0, limit="device")


def test_a_gpu_that_nobody_watched_is_unknown_but_waits_are_not() -> None:
    run = cpu_job(wait=2).add("devices", device=0, name="A100").run()
    assert bound(run).select("device", "host", "limit").rows() == [(None, None, "unknown")]
    run = cpu_job(wait=30).add("devices", device=0, name="A100").run()
    assert bound(run)["limit"].to_list() == ["input"]
