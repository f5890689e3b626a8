"""Where nothing is found, the first screen says how near the kernels come to what their device can do."""

import json

import pytest

from stepscope.core.report import Table, Verdict
from stepscope.core.synth import Synth
from stepscope.render.format import text
from stepscope.report.speed_limit import speed_limit

SQUARE = json.dumps([[8192, 8192], [8192, 8192]])
LIMIT = "Kernels reach 70 % of the A100 40GB's float16 peak and 5.2 % of its memory bandwidth"
HALF = LIMIT.replace("70", "35").replace("5.2", "2.6")


def product(gpu: str = "NVIDIA A100-SXM4-40GB", *, shapes: bool = True, unknown: float = 0) -> Synth:
    """A product of 2·8192³ FLOPs that takes 5 ms, and `unknown` ms of a kernel whose work nobody knows."""
    synth = Synth().add("devices", rank=0, device=0, name=gpu, memory=42_505_273_344, sms=108)
    synth.host("ProfilerStep#3", "annotation", 0, 10)
    dims = {"input_dims": SQUARE, "input_types": '["c10::Half","c10::Half"]'} if shapes else {}
    synth.host("aten::mm", "operator", 1, 2, **dims)
    synth.host("cudaLaunchKernel", "runtime", 1.2, 1.4, correlation=1)
    return synth.kernel(3, 8, "gemm", correlation=1).kernel(8, 8 + unknown, "mine", correlation=2)


@pytest.mark.parametrize(
    ("synth", "told"),
    [
        (product(), [f"{LIMIT}."]),
        (product(unknown=5), [f"{HALF} (work known for 50 % of kernel time)."]),
        (product(unknown=45), []),
        (product("Abacus"), []),
        (product(shapes=False), []),
        (Synth().host("aten::mm", "operator", 1, 2, input_dims=SQUARE, input_types='["float","float"]'), []),
    ],
    ids=["known", "half is known", "little is known", "unknown device", "no shapes", "no device"],
)  # fmt: skip
def test_speed_limit(synth: Synth, told: list[str]) -> None:
    verdict = Verdict("balanced", 0.5, 10_000_000, steps=1)
    assert [text(block) for block in speed_limit(synth.run(), verdict)] == told  # type: ignore[arg-type]


def test_a_step_that_the_device_limits_has_a_limit_of_its_own() -> None:
    """Of the kernels' 10 ms 5 have known work, and 3.52 ms at the peak; the device fills 9 of 10 ms of the step."""
    verdict = Verdict("device", 0.9, 10_000_000, steps=3)
    first, table, last = speed_limit(product(unknown=5).run(), verdict)
    assert text(first) == "Limit for these operators on the A100 40GB: 8.67 ms per step (1.15× faster)."  # type: ignore[arg-type]
    assert isinstance(table, Table)
    ((name, now, at_limit, why),) = table.rows
    assert (name, now, why) == ("aten::mm", 4.5e6, "near the limit")  # the device is busy for 9 of 10 ms
    assert at_limit == pytest.approx(3.17e6, rel=0.001)
    assert text(last) == f"{HALF} (work known for 50 % of kernel time)."  # type: ignore[arg-type]
