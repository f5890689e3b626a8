"""How much faster each operator could be, and why it is not: on an A100 of known peaks."""

import json
from typing import Any

import pytest

from stepscope.analyses.operators.speed_of_light import speed_of_light
from stepscope.core.synth import MS, Synth

SQUARE = 8192
AT_PEAK = 2.0 * SQUARE**3 / 312e12 * 1e9  # ns of a product in bfloat16
IN_FLOAT32 = AT_PEAK * 312 / 19.5


def one(name: str, device_ms: float, *, of: str = "c10::BFloat16", side: int = SQUARE, **kernel: Any) -> Synth:
    """One operator on two square matrices, whose kernel takes so long."""
    synth = Synth().add("devices", device=0, name="NVIDIA A100-SXM4-40GB", memory=42_505_273_344, sms=108)
    dims, types = json.dumps([[side, side], [side, side]]), json.dumps([of, of])
    synth.host(name, "operator", 0, 1, input_dims=dims, input_types=types)
    synth.host("cudaLaunchKernel", "runtime", 0.1, 0.2, correlation=1)
    return synth.kernel(1, 1 + device_ms, "k", correlation=1, **kernel)


@pytest.mark.parametrize(
    ("synth", "at_limit", "why"),
    [
        (one("aten::mm", 10), AT_PEAK, "compute-bound"),
        (one("aten::mm", 4), AT_PEAK, "near the limit"),
        (one("aten::mm", 100, of="float"), IN_FLOAT32, "no tensor cores"),
        (one("aten::mm", 10, blocks_per_sm=0.5, occupancy=0.1), AT_PEAK, "empty SMs"),
        (one("aten::mm", 10, blocks_per_sm=9.0, occupancy=0.1), AT_PEAK, "low occupancy"),
        (one("aten::add", 1), 3 * 2 * SQUARE**2 / 1555e9 * 1e9, "memory-bound"),
        (one("aten::add", 0.004, side=8), 3 * 2 * 64 / 1555e9 * 1e9, "too short"),
    ],
    ids=["compute", "near", "float32", "empty", "sparse", "memory", "short"],
)  # fmt: skip
def test_why(synth: Synth, at_limit: float, why: str) -> None:
    (row,) = speed_of_light(synth.run()).rows(named=True)
    assert (row["why"], row["at_limit"]) == (why, round(at_limit))


def test_all_rows_add_up_to_the_computing_time() -> None:
    """Kernels that no operator with known work started have a row without an operator."""
    synth = one("aten::mm", 10).host("mine::fused", "operator", 20, 21)
    synth.host("cudaLaunchKernel", "runtime", 20.1, 20.2, correlation=2).kernel(21, 36, "mine", correlation=2)
    rows = speed_of_light(synth.run()).select("operator", "total", "share", "at_limit").rows()
    assert rows == [("aten::mm", 10 * MS, 0.4, round(AT_PEAK)), (None, 15 * MS, 0.6, None)]
