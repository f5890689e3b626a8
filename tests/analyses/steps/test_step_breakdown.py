"""The plugin's eight causes, and its steps, on small runs."""

import pytest

from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.analyses.steps.lib.empty_steps import not_empty
from stepscope.analyses.steps.step_breakdown import step_breakdown
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth

CAUSES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")


def breakdown(synth: Synth) -> list[tuple[float, ...]]:
    return [tuple(time / MS for time in row) for row in step_breakdown(synth.run()).select(CAUSES).rows()]


def spans(synth: Synth) -> list[tuple[int, float, float]]:
    rows = adjusted_steps(synth.run()).select("step", "start", "end").rows()
    return [(step, start / MS, end / MS) for step, start, end in rows]


def launch(synth: Synth, at: float, start: float, end: float, *, correlation: int, name: str = "gemm") -> Synth:
    synth.host("cudaLaunchKernel", "runtime", at, at + 1, correlation=correlation)
    return synth.kernel(start, end, name, correlation=correlation)


def test_an_empty_step_is_left_out_but_not_one_of_the_same_number_of_another_profiler() -> None:
    synth = Synth()
    for step, at, operator in ((2, 0, True), (3, 10, False), (3, 100, True), (4, 110, True), (5, 120, False)):
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 10)
        if operator:
            synth.host("aten::mm", "operator", at + 1, at + 9)
    run = synth.run()
    kept = adjusted_steps(run).filter(not_empty(run))
    assert kept.select("step", "start").rows() == [(2, 0), (3, 100 * MS), (4, 110 * MS)]
    nothing = Synth().host("ProfilerStep#2", "annotation", 0, 10).run()
    assert not_empty(nothing).to_list() == [True]


def test_each_instant_goes_to_the_first_cause_that_holds() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    synth.host("enumerate(DataPipe)#Mapper", "annotation", 0, 30).host("aten::mm", "operator", 20, 60)
    synth.host("cuLaunchKernelEx", "driver", 40, 50, correlation=1).kernel(45, 70, correlation=1)
    synth.kernel(65, 75, "Memcpy", kind="memcpy").kernel(74, 80, "Memset", kind="memset")
    synth.host("gloo:barrier", "annotation", 78, 90)
    assert breakdown(synth) == [(25, 5, 5, 10, 5, 30, 10, 10)]


def test_causes_below_one_that_fills_the_step_get_nothing() -> None:
    """The plugin starts again with the whole step once nothing is left: 100, 10, 80 and 10 ms of a step of 100."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).kernel(0, 100)
    synth.host("cudaLaunchKernel", "runtime", 10, 20).host("aten::mm", "operator", 0, 90)
    assert breakdown(synth) == [(100, 0, 0, 0, 0, 0, 0, 0)]


def test_kernels_with_the_external_id_of_a_collective_communicate() -> None:
    synth = (
        Synth().host("ProfilerStep#0", "annotation", 0, 100).host("nccl:all_reduce", "annotation", 0, 10, external_id=5)
    )
    synth.kernel(20, 50, "ncclKernel", external_id=5, correlation=77).kernel(50, 60, "ncclKernel", external_id=6)
    assert breakdown(synth) == [(10, 0, 0, 40, 0, 0, 0, 50)]


def test_external_ids_that_repeat_the_correlation_link_nothing() -> None:
    synth = (
        Synth().host("ProfilerStep#0", "annotation", 0, 100).host("nccl:all_reduce", "annotation", 0, 10, external_id=5)
    )
    synth.kernel(20, 50, "ncclKernel", external_id=5, correlation=5)
    assert breakdown(synth) == [(30, 0, 0, 10, 0, 0, 0, 60)]


def test_shutting_workers_down_is_not_loading_data() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    synth.host("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "annotation", 0, 90)
    synth.host("torch/utils/data/dataloader.py(1606): _shutdown_workers", "python", 5, 88)
    assert breakdown(synth) == [(0, 0, 0, 0, 0, 7, 0, 93)]


def test_steps_take_the_tail_of_their_device_work_from_the_next() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("ProfilerStep#1", "annotation", 100, 200)
    launch(synth, 10, 20, 130, correlation=1)
    launch(synth, 150, 160, 250, correlation=2)
    assert spans(synth) == [(0, 0, 130), (1, 130, 250)]


def test_work_from_before_the_first_step_delays_its_start() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).kernel(0, 15, "earlier")
    launch(synth, 10, 20, 60, correlation=1)
    assert spans(synth) == [(0, 15, 100)]


def test_a_call_that_outlasts_its_step_launches_for_none() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    launch(synth, 50, 60, 90, correlation=1)
    launch(synth, 99.5, 110, 150, correlation=2)
    assert spans(synth) == [(0, 0, 100)]


def test_trailing_steps_whose_work_was_not_recorded_are_left_out() -> None:
    synth = Synth()
    for step, count in enumerate((5, 5, 3, 0)):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 90)
        for kernel in range(count):
            at = 100 * step + 10 * kernel
            launch(synth, at, at + 2, at + 5, correlation=10 * step + kernel + 1)
    assert [step for step, _, _ in spans(synth)] == [0, 1]


def test_a_last_step_with_four_fifths_of_the_work_stays() -> None:
    synth = Synth()
    for step, count in enumerate((5, 4)):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 90)
        for kernel in range(count):
            at = 100 * step + 10 * kernel
            launch(synth, at, at + 2, at + 5, correlation=10 * step + kernel + 1)
    assert [step for step, _, _ in spans(synth)] == [0, 1]


def test_markers_on_the_device_are_no_steps() -> None:
    """The plugin takes them for steps of their own and averages over twice as many."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).kernel(0, 90, "ProfilerStep#0", kind="annotation")
    assert spans(synth) == [(0, 0, 100)]


def test_without_markers_the_operators_are_one_step() -> None:
    synth = Synth().host("aten::mm", "operator", 20, 50).host("aten::mm", "operator", 60, 90)
    assert spans(synth.host("wrapper", "annotation", 0, 100)) == [(0, 20, 90)]
    assert breakdown(synth) == [(0, 0, 0, 0, 0, 0, 70, 0)]


def test_windows_are_adjusted_by_themselves() -> None:
    synth = Synth()
    for step in (3, 4, 20, 21):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 90)
    launch(synth, 310, 320, 500, correlation=1)
    launch(synth, 2010, 2020, 2050, correlation=2)
    assert spans(synth) == [(3, 300, 500), (20, 2000, 2090)]


def test_a_trace_of_kernels_alone_has_no_steps() -> None:
    with pytest.raises(MissingData):
        step_breakdown(Synth().kernel(0, 10).run())
