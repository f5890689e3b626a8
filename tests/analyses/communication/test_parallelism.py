"""What descriptions and patterns tell of process groups."""

import pytest

from stepscope.analyses.communication.lib.parallelism import parallel_kind
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.core.synth import Synth


@pytest.mark.parametrize(
    ("description", "kind"),
    [
        ("default_pg", "world"),
        ("mesh_dp", "data"),
        ("mesh_dp_shard_cp", "data"),
        ("mesh_fsdp", "data"),
        ("mesh_tp", "tensor"),
        ("mesh_pp", "pipeline"),
        ("mesh_ep", "expert"),
        ("mesh_cp", "context"),
        ("DATA_PARALLEL_GROUP", "data"),
        ("DATA_PARALLEL_GROUP_WITH_CP", "data"),
        ("TENSOR_MODEL_PARALLEL_GROUP", "tensor"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "expert"),
        ("EXPERT_DATA_PARALLEL_GROUP", "data"),
        ("MODEL_PARALLEL_GROUP", "tensor and pipeline"),
        ("TENSOR_AND_DATA_PARALLEL_GROUP", "tensor and data"),
        ("undefined", None),
        ("", None),
        ("department", None),
    ],
)
def test_descriptions(description: str, kind: str | None) -> None:
    assert parallel_kind(description) == kind


def groups(*collectives: str, group: str | None = "3") -> list[tuple[object, ...]]:
    synth = Synth()
    for place, collective in enumerate(collectives):
        name = "ncclDevKernel_SendRecv(ncclDevComm*)"
        synth.kernel(10 * place, 10 * place + 5, name, group=group, collective=collective or None)
    return process_groups(synth.run()).select("collective", "parallel", "parallel_by").rows()


def test_a_group_that_only_sends_and_receives_is_a_pipelines() -> None:
    assert groups("send", "recv") == [("recv", "pipeline", "pattern"), ("send", "pipeline", "pattern")]


@pytest.mark.parametrize("collectives", [("", ""), ("send", "all_to_all")])
def test_a_kernel_that_sends_may_be_an_all_to_all(collectives: tuple[str, ...]) -> None:
    assert {row[1:] for row in groups(*collectives)} == {(None, None)}


def test_without_a_group_nothing_is_told() -> None:
    assert groups("send", group=None) == [("send", None, None)]
