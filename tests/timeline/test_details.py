"""What a click on a span tells: its row, with units and meanings, what is around it, what launched it, and the line."""

import pytest

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.timeline import Ref, event


@pytest.fixture
def run() -> Run:
    synth = Synth().host("train.py(12): step", "python", 0, 50)
    synth.host("aten::mm", "operator", 1, 10, input_dims="[[2, 2], [2, 2]]")
    synth.host("cudaLaunchKernel", "runtime", 2, 3, correlation=8)
    synth.step(4, 0, 60, data_wait=5, clock="kineto")
    return synth.kernel(5, 20, "gemm", correlation=8, grid="[8, 1, 1]", occupancy=0.5).run()


def test_a_kernel_tells_its_launch_and_the_line_that_led_to_it(run: Run) -> None:
    found = event(run, Ref("stream:0:0:7", 0, 5 * MS))
    told = {argument.name: (argument.value, argument.unit) for argument in found.arguments}
    assert told["grid"] == ("[8, 1, 1]", None)
    assert told["occupancy"] == (0.5, "ratio")
    assert "bytes" not in told
    assert all(argument.meaning for argument in found.arguments)
    assert [(link.what, link.name, link.ref.lane) for link in found.links] == [
        ("launched by", "cudaLaunchKernel", 2),
        ("from", "aten::mm", 1),
        ("from", "train.py(12): step", 0),
    ]
    assert found.place == "train.py:12"


def test_a_launch_leads_to_its_kernel(run: Run) -> None:
    found = event(run, Ref("host:0:1:1", 2, 2 * MS))
    assert next((link.what, link.name, link.ref) for link in found.links) == (
        "launches", "gemm", Ref("stream:0:0:7", 0, 5 * MS),
    )  # fmt: skip
    assert [link.name for link in found.links if link.what == "in"] == ["train.py(12): step", "aten::mm"]


def test_a_step_tells_its_parts(run: Run) -> None:
    found = event(run, Ref("steps:0", 0, 0))
    assert (found.name, found.end) == ("step 4", 60 * MS)
    assert {a.name: a.value for a in found.arguments}["data_wait"] == 5 * MS


@pytest.mark.parametrize("ref", [Ref("host:0:1:1", 0, 7), Ref("host:0:1:1", 9, 0), Ref("nowhere", 0, 0)])
def test_a_span_that_there_is_not_is_refused(run: Run, ref: Ref) -> None:
    with pytest.raises(KeyError):
        event(run, ref)
