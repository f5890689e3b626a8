"""Where the host waits for the device, and what that costs."""

from pathlib import Path

import pytest

from stepscope.analyses.host.blocking_syncs import blocking_syncs
from stepscope.analyses.lib.call_sites import user_site
from stepscope.analyses.lib.library_code import is_library
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth
from stepscope.storage import open_run


def rows(synth: Synth) -> list[dict[str, object]]:
    return blocking_syncs(synth.run()).rows(named=True)


def busy_device(*, idle_until: float = 75) -> Synth:
    """A step of 100 ms: work until 60, and again from `idle_until` on."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    synth.host("cudaLaunchKernel", "runtime", 5, 6, correlation=1).kernel(10, 60, correlation=1)
    synth.host("cudaLaunchKernel", "runtime", 72, 73, correlation=2)
    return synth.kernel(idle_until, 95, correlation=2)


def item(synth: Synth) -> Synth:
    synth.host("aten::item", "operator", 18, 64).host("aten::_local_scalar_dense", "operator", 19, 63)
    synth.host("cudaMemcpyAsync", "runtime", 20, 59)
    return synth.host("cudaStreamSynchronize", "runtime", 59, 62)


def test_a_copy_and_the_wait_that_follows_are_one_call_of_the_users_operator() -> None:
    assert rows(item(busy_device())) == [{
        "rank": 0, "call": "cudaMemcpyAsync and cudaStreamSynchronize", "operator": "aten::item",
        "file": None, "line": None, "function": None, "text": None, "calls": 1, "total": 42 * MS,
        "per_step": 42.0 * MS, "bubble": 15 * MS, "stack": None,
    }]  # fmt: skip


def test_a_line_comes_with_the_source_that_samples_of_the_run_have_seen() -> None:
    """The trace cuts the front of the path off; a sample of another file of that name is not asked."""
    synth = (
        item(busy_device()).host("train.py(44): main", "python", 1, 99).host("pkg/train.py(44): g", "python", 17, 65)
    )
    for file, text in (("/home/me/pkg/train.py", "loss.item()"), ("/home/me/other/train.py", "wrong")):
        synth.sample(3, 0, 10, "other", file, 50, frames=[f"{file}:44 g", f"{file}:50 h"], texts=[text, "print(value)"])
    (row,) = rows(synth)
    assert (row["file"], row["line"], row["function"], row["text"]) == ("pkg/train.py", 44, "g", "loss.item()")


def test_a_bubble_is_no_longer_than_the_call() -> None:
    """Without the call the host would come to the next launch earlier by as long as it was blocked."""
    synth = busy_device(idle_until=94).host("cudaDeviceSynchronize", "runtime", 58, 63)
    assert [(row["total"], row["bubble"]) for row in rows(synth)] == [(5 * MS, 5 * MS)]


def test_a_device_that_was_idle_before_loses_nothing() -> None:
    synth = busy_device().host("cudaStreamSynchronize", "runtime", 62, 63)
    assert [(row["call"], row["bubble"]) for row in rows(synth)] == [("cudaStreamSynchronize", 0)]


def test_a_device_with_other_work_loses_nothing() -> None:
    synth = item(busy_device()).kernel(30, 90, "other", stream="8")
    assert [row["bubble"] for row in rows(synth)] == [0]


def test_two_calls_in_one_gap_count_it_once() -> None:
    synth = (
        busy_device()
        .host("cudaEventSynchronize", "runtime", 20, 61)
        .host("cudaStreamSynchronize", "runtime", 59, 66, thread="2")
    )
    assert sum(row["bubble"] for row in rows(synth)) == 15 * MS  # type: ignore[misc]


def test_the_gap_may_start_after_the_call_and_before_the_next_launch() -> None:
    synth = busy_device().host("cudaStreamSynchronize", "runtime", 30, 55)
    assert [row["bubble"] for row in rows(synth)] == [15 * MS]


@pytest.mark.parametrize(
    "call", ["cudaMemcpy", "hipMemcpyWithStream", "cuMemcpyDtoH_v2", "hipStreamSynchronize", "cuCtxSynchronize"]
)
def test_calls_that_block(call: str) -> None:
    synth = busy_device().host("aten::copy_", "operator", 19, 70).host(call, "runtime", 20, 62)
    assert [(row["call"], row["operator"]) for row in rows(synth)] == [(call, "aten::copy_")]


@pytest.mark.parametrize("call", ["cudaMemcpyAsync", "hipMemcpyDtoDAsync", "cudaEventQuery", "cudaStreamWaitEvent"])
def test_calls_that_do_not(call: str) -> None:
    assert rows(busy_device().host(call, "runtime", 20, 62)) == []


def test_a_copy_in_another_operator_than_the_wait_is_not_part_of_it() -> None:
    synth = busy_device().host("aten::copy_", "operator", 19, 30).host("cudaMemcpyAsync", "runtime", 20, 29)
    synth.host("cudaStreamSynchronize", "runtime", 40, 62)
    assert [(row["call"], row["operator"]) for row in rows(synth)] == [("cudaStreamSynchronize", None)]


def test_the_profilers_own_synchronizations_are_left_out() -> None:
    synth = busy_device().host("cudaDeviceSynchronize", "runtime", 101, 120)
    synth.host("torch/profiler/profiler.py(800): stop_trace", "python", 65, 71)
    assert rows(synth.host("cudaDeviceSynchronize", "runtime", 66, 70)) == []


def test_a_synchronization_of_a_script_that_uses_the_profiler_stays() -> None:
    synth = busy_device().host("torch/profiler/profiler.py(800): step", "python", 15, 71)
    synth.host("train.py(12): on_trace_ready", "python", 20, 70).host("cudaDeviceSynchronize", "runtime", 30, 62)
    assert [row["line"] for row in rows(synth)] == [12]


def test_without_step_markers_the_edges_are_the_launches() -> None:
    synth = Synth()
    for correlation, at in ((1, 10), (2, 50)):
        synth.host("cudaLaunchKernel", "runtime", at, at + 1, correlation=correlation).kernel(
            at, at + 9, correlation=correlation
        )
    synth.host("cudaDeviceSynchronize", "runtime", 0, 5).host("cudaDeviceSynchronize", "runtime", 20, 25)
    synth.host("cudaDeviceSynchronize", "runtime", 90, 95)
    assert [(row["calls"], row["per_step"]) for row in rows(synth)] == [(1, None)]


def test_the_line_is_the_nearest_frame_of_the_users_code() -> None:
    synth = item(busy_device()).host("train.py(7): main", "python", 1, 99).host("train.py(41): log", "python", 15, 68)
    synth.host("torch/_tensor.py(30): item", "python", 16, 66).host("train.py(99): elsewhere", "python", 70, 80)
    (row,) = rows(synth)
    assert (row["file"], row["line"]) == ("train.py", 41)
    assert row["stack"] == "torch/_tensor.py(30): item;train.py(41): log;train.py(7): main"


def test_call_stacks_of_operators_tell_the_line_too() -> None:
    synth = busy_device().host(
        "aten::nonzero", "operator", 19, 70, call_stack="torch/x.py(1): f;/home/me/m.py(8): forward"
    )
    (row,) = rows(synth.host("cudaStreamSynchronize", "runtime", 20, 62))
    assert (row["operator"], row["file"], row["line"]) == ("aten::nonzero", "/home/me/m.py", 8)


def test_operators_of_autograd_hide_no_operator() -> None:
    synth = busy_device().host("autograd::engine::evaluate_function: IndexBackward0", "operator", 15, 70)
    synth.host("IndexBackward0", "operator", 16, 69).host("aten::index_put_", "operator", 17, 68)
    synth.host("aten::nonzero", "operator", 18, 67).host("cudaStreamSynchronize", "runtime", 20, 62)
    assert [row["operator"] for row in rows(synth)] == ["aten::index_put_"]


def test_a_run_without_a_device_is_missing_data() -> None:
    with pytest.raises(MissingData, match="uses a GPU"):
        blocking_syncs(Synth().host("aten::mm", "operator", 0, 1).run())


def test_a_run_that_never_waits_has_no_rows() -> None:
    assert rows(busy_device()) == []


@pytest.mark.parametrize(
    "file",
    [
        "torch/nn/modules/module.py", "threading.py", "multiprocessing/queues.py", "<frozen importlib>",
        "/usr/lib/python3.11/json/decoder.py", "/opt/env/lib/python3.12/site-packages/foo/bar.py",
        "/usr/local/lib/python3.10/dist-packages/x.py", "/opt/pytorch/torch/optim/sgd.py", "transformers/trainer.py",
        "/tmp/torchinductor_me/ab/cab.py", "numpy/core/numeric.py",
    ],
)  # fmt: skip
def test_files_of_libraries(file: str) -> None:
    assert is_library(file)


@pytest.mark.parametrize(
    "file", ["train.py", "src/model/net.py", "/home/me/torch_project/train.py", "C:\\me\\train.py"]
)
def test_files_of_users(file: str) -> None:
    assert not is_library(file)


def test_built_in_frames_have_no_place() -> None:
    site = user_site(["<built-in method item of Tensor object at 0x7f>", "nn.Module: Net_0", "net.py(3): forward"])
    assert (site.file, site.line) == ("net.py", 3)


@pytest.mark.slow
def test_copies_from_pageable_memory_of_a_real_training(corpus: Path) -> None:
    trace = next((corpus / "traces/kineto/resnet50_num_workers_0").glob("*.json.gz"))
    (row,) = blocking_syncs(open_run(trace)).rows(named=True)
    assert (row["call"], row["operator"]) == ("cudaMemcpyAsync and cudaStreamSynchronize", "aten::to")
    assert (row["file"], row["line"]) == ("resnet50_profiler_api.py", 44)
    assert row["calls"] == 12  # two copies in each of six steps; the synchronization that ends the recording is not one


def test_a_synchronization_inside_a_step_and_the_profilers_outside(corpus: Path) -> None:
    trace = corpus / "traces/tracelens/h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz"
    found = {row["call"]: (row["calls"], row["line"]) for row in blocking_syncs(open_run(trace)).rows(named=True)}
    assert found == {"cudaMemcpyAsync and cudaStreamSynchronize": (2, 40), "cudaDeviceSynchronize": (1, 34)}
