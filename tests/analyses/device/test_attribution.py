"""Launches and operators of device work, and how much of it has them."""

from stepscope.analyses.device.attribution import attribution
from stepscope.analyses.device.attribution_coverage import attribution_coverage
from stepscope.core.synth import MS, Synth


def named(synth: Synth) -> list[tuple[str | None, str | None]]:
    """For each device work, the names of its call and operator."""
    run = synth.run()
    names = dict(run.optional("host").select("index", "name").iter_rows())
    return [(names.get(call), names.get(op)) for call, op in attribution(run).select("launch", "operator").iter_rows()]


def test_the_innermost_operator_or_annotation_around_the_launch() -> None:
    synth = Synth().host("step", "annotation", 0, 100).host("aten::linear", "operator", 10, 50)
    synth.host("aten::addmm", "operator", 20, 40).host("cudaLaunchKernel", "runtime", 25, 30, correlation=1)
    synth.host("cudaLaunchKernel", "runtime", 60, 65, correlation=2)
    synth.kernel(35, 90, correlation=1).kernel(90, 99, correlation=2)
    assert named(synth) == [("cudaLaunchKernel", "aten::addmm"), ("cudaLaunchKernel", "step")]
    assert attribution(synth.run())["how"].to_list() == ["time", "time"]


def test_driver_calls_launch_too_also_inside_a_runtime_call() -> None:
    synth = Synth().host("triton", "operator", 0, 50).host("cudaLaunchKernelExC", "runtime", 5, 20)
    synth.host("cuLaunchKernelEx", "driver", 6, 19, correlation=3).kernel(30, 40, correlation=3)
    assert named(synth) == [("cuLaunchKernelEx", "triton")]


def test_another_thread_process_or_rank_does_not_match() -> None:
    synth = (
        Synth().host("aten::mm", "operator", 0, 50, thread="2").host("cudaLaunchKernel", "runtime", 5, 9, correlation=1)
    )
    synth.kernel(10, 20, correlation=1).kernel(20, 30, correlation=1, pid="9").kernel(30, 40, correlation=1, rank=1)
    assert named(synth) == [("cudaLaunchKernel", None), (None, None), (None, None)]


def test_correlation_zero_is_none() -> None:
    synth = Synth().host("cudaLaunchKernel", "runtime", 0, 5, correlation=0).kernel(10, 20, correlation=0)
    assert named(synth) == [(None, None)]


def test_time_decides_where_the_external_id_says_otherwise() -> None:
    synth = (
        Synth().host("aten::mm", "operator", 0, 50, external_id=1).host("aten::relu", "operator", 60, 90, external_id=2)
    )
    synth.host("cudaLaunchKernel", "runtime", 5, 9, correlation=1, external_id=2).kernel(10, 20, correlation=1)
    assert named(synth) == [("cudaLaunchKernel", "aten::mm")]
    row = attribution_coverage(synth.run()).row(0, named=True)
    assert (row["external_agree"], row["external_disagree"]) == (0, 1)


def test_a_trace_of_the_device_alone_has_no_launches() -> None:
    assert named(Synth().kernel(0, 10, correlation=1)) == [(None, None)]


def test_attribution_coverage_divides_the_duration_of_all_work() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 50, external_id=7)
    synth.host("cudaLaunchKernel", "runtime", 5, 9, correlation=1, external_id=7)
    synth.host("cudaLaunchKernel", "runtime", 60, 65, correlation=2)
    synth.kernel(10, 50, correlation=1).kernel(50, 80, correlation=2).kernel(80, 110)
    assert attribution_coverage(synth.run()).row(0, named=True) == {
        "rank": 0, "work": 100 * MS, "placed": 40 * MS, "without_operator": 30 * MS, "without_launch": 30 * MS,
        "unplaced_share": 0.6, "external_agree": 1, "external_disagree": 0,
    }  # fmt: skip
