"""The FLOPs that a trace gives are those that torch's own counter counts while the same operators run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepscope.analyses.operators.lib.flops import HEAVY, operator_work
from stepscope.storage import open_run

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from .torch_programs import Program

NAMES = (
    "mm", "addmm", "bmm", "baddbmm", "matmul of batches", "linear", "conv1d", "conv2d",
    "conv2d without gradient of the input", "conv3d", "transposed conv2d", "layers",
)  # fmt: skip


@pytest.fixture(scope="module")
def programs() -> Any:
    """What uses torch, which would make the collection of all tests half as long again."""
    from . import torch_programs

    return torch_programs


def flops_of_trace(programs: Any, program: "Program", path: Path) -> float:
    programs.write_trace(program, path)
    work = operator_work(open_run([path]))
    heavy = work.filter(work["kind"].is_in(HEAVY))
    assert heavy["flops"].null_count() == 0
    return float(heavy["flops"].sum())


def test_every_program_is_looked_at(programs: Any) -> None:
    assert {*programs.PROGRAMS} == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_flops_as_torchs_counter(programs: Any, name: str, tmp_path: Path) -> None:
    program = programs.PROGRAMS[name]
    counted = programs.of_torch(program)
    assert counted > 0
    assert flops_of_trace(programs, program, tmp_path / "trace.json") == counted


@pytest.mark.parametrize(("causal", "share"), [(False, 1.0), (True, 48 * 49 / 2 / 48**2)])
def test_attention(programs: Any, causal: bool, share: float, tmp_path: Path) -> None:
    of_trace = flops_of_trace(programs, lambda: programs.attention(causal=causal), tmp_path / "trace.json")
    assert of_trace == programs.attention_by_torch() * share


def test_groups_of_a_convolution_see_their_own_channels_only(programs: Any, tmp_path: Path) -> None:
    """torch's counter takes all channels for the gradient of the weight."""
    forward = 2 * (2 * 18 * 28) * 8 * 3 * 9
    assert flops_of_trace(programs, programs.grouped, tmp_path / "trace.json") == 3 * forward
    assert programs.of_torch(programs.grouped) == 2 * forward + 2 * forward
