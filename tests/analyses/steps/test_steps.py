"""Steps of the probe, steps of a trace, and the steps that averages are taken from."""

from pathlib import Path

import pytest

from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
PHASES = ("data_wait", "forward", "backward", "optimizer", "other")


def phases(run: Run) -> list[tuple[float | None, ...]]:
    rows = steps(run).select(PHASES).rows()
    return [tuple(None if time is None else time / MS for time in row) for row in rows]


def traced(*, end: float = 100) -> Synth:
    return Synth().host("ProfilerStep#7", "annotation", 0, end)


def test_steps_of_the_probe_are_taken_as_they_are() -> None:
    synth = Synth().step(
        0, 0, 100, data_wait=30, forward=20, backward=25, optimizer=5, samples=16, tags=("epoch-start",)
    )
    (row,) = steps(synth.run()).iter_rows(named=True)
    assert row == {
        "rank": 0, "step": 0, "start": 0, "end": 100 * MS, "duration": 100 * MS,
        "data_wait": 30 * MS, "forward": 20 * MS, "backward": 25 * MS, "optimizer": 5 * MS, "other": 20 * MS,
        "samples": 16, "micro_batches": 1, "clock": "host", "tags": ["epoch-start", "warm-up"],
        "weight": 1,
    }  # fmt: skip


def test_a_trace_beside_steps_of_the_probe_adds_no_steps() -> None:
    run = traced().step(7, 0, 100, forward=10).run()
    assert steps(run)["clock"].to_list() == ["host"]


def test_phases_of_a_traced_step() -> None:
    synth = traced().host(LOADER, "annotation", 0, 20).host("aten::mm", "operator", 25, 40)
    synth.host(BACKWARD, "operator", 50, 60, thread="2").host(BACKWARD, "operator", 62, 70, thread="2")
    synth.host("Optimizer.zero_grad#SGD.zero_grad", "annotation", 71, 72)
    synth.host("Optimizer.step#SGD.step", "annotation", 75, 90)
    assert phases(synth.run()) == [(20, 30, 20, 15, 15)]
    (row,) = steps(synth.run()).iter_rows(named=True)
    assert (row["step"], row["clock"], row["tags"], row["micro_batches"]) == (7, "kineto", ["traced"], 1)


def test_each_micro_batch_has_its_forward_and_backward() -> None:
    synth = traced()
    for start in (0, 40):
        synth.host(LOADER, "annotation", start, start + 10).host("aten::mm", "operator", start + 12, start + 20)
        synth.host(BACKWARD, "operator", start + 22, start + 30)
        synth.host(BACKWARD, "operator", start + 31, start + 38)
    synth.host("Optimizer.step#SGD.step", "annotation", 80, 90)
    assert phases(synth.run()) == [(20, 24, 32, 10, 14)]
    assert steps(synth.run())["micro_batches"].to_list() == [2]


def test_what_crosses_from_one_step_into_the_next_is_cut_there() -> None:
    synth = Synth().host("ProfilerStep#7", "annotation", 0, 50).host("ProfilerStep#8", "annotation", 50, 100)
    synth.host(BACKWARD, "operator", 40, 60, thread="2").host("Optimizer.step#SGD.step", "annotation", 90, 95)
    assert phases(synth.run()) == [(None, 40, 10, 0, 0), (None, 0, 10, 5, 35)]
    assert steps(synth.run())["micro_batches"].to_list() == [1, 1]


def test_a_wait_that_hides_the_whole_backward_leaves_no_phase_but_the_rest() -> None:
    synth = traced().host(LOADER, "annotation", 20, 100).host(BACKWARD, "operator", 60, 70, thread="2")
    assert phases(synth.run()) == [(80, None, None, None, 20)]


def test_the_shutdown_of_workers_at_the_end_of_an_epoch_is_no_data_wait() -> None:
    synth = traced().host(LOADER, "annotation", 0, 90)
    synth.host("torch/utils/data/dataloader.py(1606): _shutdown_workers", "python", 5, 88)
    assert phases(synth.run()) == [(7, None, None, None, 93)]  # no training: nothing tells a forward


def test_frames_of_a_backward_call_show_what_it_waits_for_at_its_end() -> None:
    synth = traced().host(BACKWARD, "operator", 20, 30)
    assert phases(synth.run()) == [(None, 20, 10, 0, 70)]
    synth.host("torch/_tensor.py(566): backward", "python", 18, 80)
    assert phases(synth.run()) == [(None, 18, 62, 0, 20)]


def test_a_closure_runs_backward_inside_the_optimizer() -> None:
    synth = traced().host("Optimizer.step#LBFGS.step", "annotation", 10, 90).host(BACKWARD, "operator", 30, 50)
    assert phases(synth.run()) == [(None, 10, 20, 60, 10)]


def test_a_data_wait_that_starts_before_the_step_is_cut() -> None:
    assert phases(Synth().host("ProfilerStep#7", "annotation", 10, 50).host(LOADER, "annotation", 0, 30).run()) == [
        (20, None, None, None, 20)
    ]


def test_the_marker_on_the_device_is_a_copy_not_a_step() -> None:
    synth = traced().kernel(10, 200, "ProfilerStep#7", kind="annotation")
    assert steps(synth.run()).height == 1


def test_without_markers_there_are_no_steps() -> None:
    with pytest.raises(MissingData, match="stepscope run"):
        steps(Synth().host("aten::mm", "operator", 0, 10).run())


def test_the_beginning_of_one_more_step_that_a_profiler_marks_at_its_end_is_empty() -> None:
    synth = traced().host("aten::mm", "operator", 10, 90).host("ProfilerStep#8", "annotation", 100, 101)
    assert steps(synth.run())["tags"].to_list() == [["traced"], ["traced", "empty"]]
    assert steady_steps(synth.run())["step"].to_list() == [7]


def test_an_empty_step_has_no_phases_of_zero() -> None:
    synth = (
        traced().host("aten::mm", "operator", 10, 90).host("autograd::engine::evaluate_function: X", "operator", 90, 95)
    )
    last = steps(synth.host("ProfilerStep#8", "annotation", 100, 101).run()).tail(1)
    assert last.select("forward", "backward", "optimizer").row(0) == (None, None, None)
    cut = synth.host("ProfilerStep#9", "annotation", 200, 210).host("Optimizer.step#SGD.step", "annotation", 204, 208)
    columns = ("forward", "optimizer", "other", "duration")
    assert steps(cut.run()).tail(1).select(columns).row(0) == (None, None, 10_000_000, 10_000_000)


def test_tags_name_warm_up_and_long_steps() -> None:
    synth = Synth()
    for step, duration in enumerate((500, 60, 60, 50, 50, 50, 260, 50)):
        synth.step(step, 1000 * step, 1000 * step + duration, tags=("traced",) if step == 5 else ())
    assert steps(synth.run())["tags"].to_list() == [
        ["warm-up", "long"], ["warm-up"], ["warm-up"], [], [], ["traced"], [], []
    ]  # fmt: skip
    assert steady_steps(synth.run())["step"].to_list() == [3, 4, 6, 7]


def test_a_step_five_times_the_median_is_not_long_one_beyond_is() -> None:
    synth = Synth()
    for step, duration in enumerate((50, 50, 50, 50, 50, 250, 251)):
        synth.step(step, 1000 * step, 1000 * step + duration)
    tags = steps(synth.run())["tags"].to_list()
    assert ["long" in of_step for of_step in tags] == [False] * 6 + [True]


def test_steady_steps_fall_back_to_traced_ones_by_rank() -> None:
    synth = Synth()
    for step in range(5):
        synth.step(step, 100 * step, 100 * step + 50, tags=("traced",) if step > 2 else ())
        synth.step(step, 100 * step, 100 * step + 50, tags=("tracing",) if step == 4 else (), rank=1)
    assert steady_steps(synth.run()).select("rank", "step").rows() == [(0, 3), (0, 4), (1, 3)]


def test_all_steps_of_a_trace_are_steady() -> None:
    assert steady_steps(traced().run())["step"].to_list() == [7]


def test_three_steps_are_warm_up_only() -> None:
    synth = Synth()
    for step in range(3):
        synth.step(step, 100 * step, 100 * step + 50)
    with pytest.raises(MissingData, match="more than 3 steps"):
        steady_steps(synth.run())


def test_the_recorded_loop_with_two_workers(corpus: Path) -> None:
    """The second window ends with the call that shuts two workers down, 80.3 ms of its 80.4 ms."""
    first, second = sorted((corpus / "traces/local/cpu_conv_nw2").glob("*.json.gz"))
    assert [row[0] for row in phases(open_run(first))] == [0.206455, 22.749939, 0.04763]
    assert phases(open_run(second)) == [
        (1.128021, 1.55359, 1.623755, 0.335768, 0.066667),
        (0.113358, None, None, None, 80.674565),
    ]


def test_the_recorded_loop_without_workers(corpus: Path) -> None:
    first, _ = sorted((corpus / "traces/local/cpu_conv_nw0").glob("*.json.gz"))
    waits = [row[0] for row in phases(open_run(first))]
    assert waits == [19.017181, 22.834274, 22.825451]  # the loader's annotations: it works in the training thread


def test_waiting_for_gradients_of_another_rank_is_backward(corpus: Path) -> None:
    rows = steps(open_run(corpus / "traces/local/gloo_ddp2")).select("rank", "step", "backward").rows()
    assert rows[:3] == [(0, 2, 11_840_995), (0, 3, 15_727_530), (0, 4, 13_912_021)]
    assert all(time < 6 * MS for rank, _, time in rows if rank == 1)  # the slow rank finds the others waiting


@pytest.mark.slow
def test_a_trace_of_2021_has_phases_too(corpus: Path) -> None:
    trace = next((corpus / "traces/kineto/resnet50_num_workers_0").glob("*.json.gz"))
    rows = phases(open_run(trace))
    assert rows[0] == (68.694, 50.656, 36.114, 20.384, 0.23)
    assert len(rows) == 6


def test_a_recording_without_steps_says_why_and_is_not_told_to_be_recorded() -> None:
    why = "No step was recorded: the job ended with exit code 2. Next: see what the job printed."
    synth = Synth()
    synth.add("meta", source="run", key="no_steps", value=why)
    with pytest.raises(MissingData) as caught:
        steps(synth.run())
    assert caught.value.how == why
