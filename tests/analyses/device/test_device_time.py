"""The time of a device, divided by hand."""

import pytest

from stepscope.analyses.device.device_time import device_time
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth

TIMES = ("span", "kernel_busy", "busy", "compute_busy", "communication_busy", "memory_busy")


def row(synth: Synth) -> dict[str, int]:
    (only,) = device_time(synth.run()).iter_rows(named=True)
    return only


def test_overlapping_work_is_counted_once_and_the_parts_add_up() -> None:
    synth = Synth().kernel(10, 40).kernel(30, 50, stream="8")  # compute 10-50
    synth.kernel(45, 60, "ncclDevKernel_AllReduce", stream="9")  # exposed 50-60
    synth.kernel(55, 70, "Memcpy HtoD", kind="memcpy").kernel(80, 81, "Memset", kind="memset")  # exposed 60-70, 80-81
    only = row(synth)
    assert {name: only[name] / MS for name in TIMES} == {
        "span": 71, "kernel_busy": 50, "busy": 61, "compute_busy": 40, "communication_busy": 15, "memory_busy": 16,
    }  # fmt: skip
    assert (only["exposed_communication"], only["exposed_memory"], only["idle"]) == (10 * MS, 11 * MS, 10 * MS)
    assert (only["kernels"], only["memcpys"], only["memsets"]) == (3, 1, 1)
    assert (only["first_start"], only["last_end"]) == (10 * MS, 81 * MS)


def test_a_kernel_whose_collective_the_trace_names_communicates_whatever_its_name() -> None:
    only = row(Synth().kernel(0, 10, "dispatch", collective="all_to_all").kernel(10, 30))
    assert (only["communication_busy"], only["compute_busy"]) == (10 * MS, 20 * MS)


def test_annotations_and_synchronizations_on_the_device_are_no_work() -> None:
    only = row(
        Synth().kernel(0, 10).kernel(0, 90, "Optimizer.step", kind="annotation").kernel(50, 99, "s", kind="sync")
    )
    assert only["span"] == only["busy"] == 10 * MS


def test_each_rank_and_device_has_its_own_row() -> None:
    synth = Synth().kernel(0, 10).kernel(0, 20, device=1).kernel(0, 30, rank=1)
    rows = device_time(synth.run()).select("rank", "device", "busy").rows()
    assert rows == [(0, 0, 10 * MS), (0, 1, 20 * MS), (1, 0, 30 * MS)]


def test_the_time_between_traced_windows_is_not_idle() -> None:
    synth = Synth()
    for step, start in ((3, 0), (4, 100), (20, 5000)):
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 90).kernel(start + 10, start + 60)
    only = row(synth)
    assert only["span"] == (90 + 100 + 50) * MS + 10 * MS - 10 * MS  # 10 to 190, and 5000 to 5060
    assert only["idle"] == only["span"] - 150 * MS


def test_a_trace_of_the_host_alone_has_no_device_time() -> None:
    with pytest.raises(MissingData, match="no device work"):
        device_time(Synth().host("aten::mm", "operator", 0, 1).run())
