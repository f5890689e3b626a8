"""Communication is recognized by the arguments of an event, else by the operator that started it, else by its name."""

from typing import Any

import pytest

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.lib.collective_names import kernel_kind
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.analyses.device.device_time import device_time
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth


def launched(synth: Synth, at: float, name: str, *operators: str, **columns: Any) -> Synth:
    """A kernel of 1 ms whose launch lies in operators, the outermost first."""
    for depth, operator in enumerate(operators):
        kind = "annotation" if ":" in operator and "::" not in operator else "operator"
        synth.host(operator, kind, at + 0.1 * depth, at + 2 - 0.1 * depth)
    correlation = int(at) + 1
    synth.host("cudaLaunchKernel", "runtime", at + 0.9, at + 1.1, correlation=correlation)
    return synth.kernel(at + 1.2, at + 2.2, name, correlation=correlation, **columns)


def communication(run: Run) -> int:
    return int(device_time(run)["communication_busy"][0])


def kinds(run: Run) -> list[str | None]:
    return collectives(run)["collective"].to_list()


def test_arguments_go_before_operator_and_name() -> None:
    run = launched(Synth(), 0, "mystery", "c10d::allreduce_", collective="_allgather_base").run()
    assert (communication(run), kinds(run)) == (MS, ["all_gather"])


def test_an_operator_of_communication_makes_its_kernels_communicate() -> None:
    synth = launched(Synth(), 0, "mystery_kernel", "c10d::allreduce_", "record_param_comms")
    launched(synth, 10, "other_kernel", "vllm::all_reduce")
    run = synth.run()
    assert (communication(run), kinds(run)) == (2 * MS, [None, "all_reduce"])


def test_only_kernels_that_it_starts_itself() -> None:
    synth = launched(Synth(), 0, "copy_kernel", "c10d::allgather_", "aten::copy_")
    launched(synth, 10, "mystery", "aten::mm", "c10d::allgather_")
    assert communication(synth.run()) == MS


def test_a_call_of_the_runtime_may_hold_one_of_the_driver() -> None:
    synth = Synth().host("c10d::allreduce_", "operator", 0, 5).host("cudaLaunchKernelExC", "runtime", 1, 4)
    synth.host("cuLaunchKernelEx", "driver", 2, 3, correlation=7).kernel(6, 7, "mystery", correlation=7)
    assert communication(synth.run()) == MS


@pytest.mark.parametrize("kernel", ["void at::native::copy_kernel<float>", "void c10d::checkForNaN<float>(float*)"])
def test_what_prepares_the_data_is_computing(kernel: str) -> None:
    assert communication(launched(Synth(), 0, kernel, "c10d::allreduce_").run()) == 0


def test_copies_and_sets_stay_memory() -> None:
    """NCCL copies within the device where a group has one rank only."""
    run = launched(Synth(), 0, "Memcpy DtoD", "nccl:all_reduce", kind="memcpy").run()
    assert communication(run) == 0
    with pytest.raises(MissingData):
        collectives(run)


def test_operators_that_also_compute_leave_it_to_the_names_of_their_kernels() -> None:
    synth = launched(Synth(), 0, "rms_norm_kernel", "aiter::fused_allreduce_rmsnorm")
    launched(synth, 10, "void aiter::reduce_scatter_cross_device_store<8>", "aiter::fused_allreduce_rmsnorm")
    run = synth.run()
    assert (communication(run), kinds(run)) == (MS, ["reduce_scatter"])


def test_threads_and_processes_are_kept_apart() -> None:
    synth = Synth().host("c10d::allreduce_", "operator", 0, 10, thread="2")
    synth.host("cudaLaunchKernel", "runtime", 1, 2, correlation=1).kernel(3, 4, "k", correlation=1)
    synth.host("c10d::allreduce_", "operator", 0, 10, pid="9")
    assert communication(synth.run()) == 0


def test_several_sends_at_once_are_named_by_their_kernel() -> None:
    synth = launched(Synth(), 0, "ncclDevKernel_SendRecv(ncclDevComm*)", "nccl:coalesced")
    launched(synth, 10, "ncclDevKernel_SendRecv(ncclDevComm*)", collective="coalesced")
    assert kinds(synth.run()) == ["send_recv", "send_recv"]


def test_the_records_of_parameters_are_no_collectives_of_their_own() -> None:
    synth = launched(Synth(), 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "record_param_comms", "nccl:all_reduce")
    synth.host("record_param_comms", "operator", 0.05, 1.95)
    assert kinds(synth.run()) == ["all_reduce"]


def test_an_annotation_inside_its_like_is_the_same_transfer() -> None:
    synth = Synth().host("gloo:all_reduce", "annotation", 0, 10).host("gloo:all_reduce", "annotation", 1, 9)
    synth.host("gloo:all_reduce", "annotation", 10, 12).host("gloo:broadcast", "annotation", 11, 12)
    assert [(row[0] / MS, row[1] / MS) for row in collectives(synth.run()).select("start", "end").rows()] == [
        (0, 10),
        (10, 12),
        (11, 12),
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("void vllm::cross_device_reduce_1stage<half, 2>(vllm::RankData*)", "all_reduce"),
        ("void (anonymous namespace)::multimem_all_gather_kernel<16>(char*)", "all_gather"),
        ("void deep_ep::intranode::dispatch<8, 768>(int4*)", "dispatch"),
        ("ncclDevKernel_SendRecv(ncclDevComm*)", "send_recv"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", None),
    ],
)
def test_names_of_kernels(name: str, kind: str | None) -> None:
    assert kernel_kind(name) == kind


def sends(synth: Synth, rank: int, *transfers: tuple[str, int, float, float]) -> None:
    """Sends and receives of a rank with their peers, as torch writes them."""
    for place, (collective, peer, start, end) in enumerate(transfers):
        ends = {"destination_rank": peer} if collective == "send" else {"source_rank": peer}
        synth.kernel(
            start, end, "ncclDevKernel_SendRecv(ncclDevComm*)", rank=rank, stream="30", collective=collective,
            group="5", group_size=3, collective_sequence=place, in_elements=8, out_elements=8, dtype="Float",
            group_description="PIPELINE_MODEL_PARALLEL_GROUP", **ends,
        )  # fmt: skip


def test_a_send_and_its_receive_are_one_transfer() -> None:
    """Their sequence numbers differ, because a stage in the middle counts those with both neighbors."""
    synth = Synth()
    sends(synth, 0, ("send", 1, 0, 9), ("send", 1, 20, 24))
    sends(synth, 1, ("recv", 0, 3, 9), ("send", 2, 10, 12), ("recv", 0, 20, 24), ("send", 2, 30, 40))
    sends(synth, 2, ("recv", 1, 5, 12), ("recv", 1, 25, 40))
    table = collectives(synth.run())
    assert table["unmatched"].null_count() == table.height == 8
    waits = table.select("rank", "collective", "match", "waiting").rows()
    assert [(rank, name, match, wait / MS) for rank, name, match, wait in waits] == [
        (0, "send", 0, 3),
        (0, "send", 2, 0),
        (1, "recv", 0, 0),
        (1, "send", 1, 0),
        (1, "recv", 2, 0),
        (1, "send", 3, 0),
        (2, "recv", 1, 5),
        (2, "recv", 3, 5),
    ]


def test_the_arguments_of_a_kernel_say_what_its_group_is_for() -> None:
    synth = Synth()
    sends(synth, 0, ("send", 1, 0, 9))
    table = process_groups(synth.run())
    assert table.select("description", "parallel", "parallel_by").rows() == [
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline", "description")
    ]
    assert collectives(synth.run())["unmatched"].to_list() == ["alone"]


@pytest.mark.parametrize(("world", "known"), [(2, True), (3, False)])
def test_in_a_job_of_two_ranks_the_other_end_is_known(world: int, known: bool) -> None:
    synth = Synth()
    for rank, names in enumerate((("send", "recv"), ("recv", "send"))):
        synth.add("processes", rank=rank, world_size=world)
        for place, name in enumerate(names):
            synth.host(f"gloo:{name}", "annotation", 10 * place, 10 * place + 5 + rank, rank=rank)
    table = collectives(synth.run())
    assert table["unmatched"].to_list() == [None if known else "no-peer"] * 4
    waits = [0, 0, MS, MS] if known else [None] * 4
    assert table["waiting"].to_list() == waits


def test_collectives_that_are_launched_but_not_recorded() -> None:
    """As in a trace without the activities of the device."""
    synth = Synth().host("nccl:all_to_all", "annotation", 0, 10)
    with pytest.raises(MissingData, match="one rank only"):
        collectives(synth.run())
