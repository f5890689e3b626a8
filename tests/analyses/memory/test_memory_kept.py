"""Memory that steps leave behind, and the rules about memory that grows and memory that is full."""

import sys
from pathlib import Path

import pytest

from stepscope.analyses.memory.memory_kept import memory_kept
from stepscope.core.errors import MissingData
from stepscope.core.finding import Finding
from stepscope.core.synth import MS, Synth, build
from stepscope.render.format import title_text
from stepscope.rules.memory.memory_growth import RULE as GROWTH
from stepscope.rules.memory.memory_near_limit import RULE as FULL
from stepscope.storage import open_run

from ...command import printed

MIB = 1 << 20


def test_what_the_last_step_holds_and_what_is_freed_later_do_not_count() -> None:
    synth = Synth()
    for step in range(3):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        synth.host("aten::stack", "operator", start + 10, start + 20)
        _block(synth, start + 11, 64, 1000 + step)  # kept
        _block(synth, start + 50, 512, 2000 + step)  # freed in the next step
        if step:
            _block(synth, start + 5, -512, 1999 + step)
    _block(synth, 5, 256, 3000)  # by the first step only, outside of operators
    none = {"file": None, "line": None, "function": None, "text": None, "category": "unknown"}
    device = {"rank": 0, "device_type": "CUDA", "device": 0, "watched": 2}
    assert memory_kept(synth.run()).rows(named=True) == [
        {**device, "operator": "aten::stack", **none, "bytes": 128, "blocks": 2, "steps": 2, "per_step": 64.0},
        {**device, "operator": None, **none, "bytes": 256, "blocks": 1, "steps": 1, "per_step": 128.0},
    ]


def test_one_step_cannot_tell() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100)
    _block(synth, 10, 64, 1)
    with pytest.raises(MissingData, match="several steps with memory"):
        memory_kept(synth.run())


def _block(synth: Synth, time: float, size: int, address: int) -> None:
    synth.add("memory", thread="1", time=round(time * MS), device_type=1, device=0, bytes=size, address=address)


def evidence(finding: Finding) -> dict[str, float]:
    return {item.label: item.value for item in finding.evidence}


def test_the_pace_of_a_growth() -> None:
    (finding,) = GROWTH.check(build(GROWTH.example, fixed=False))
    peak = (1 << 30) + 7 * 16 * MIB + 64 * MIB
    assert finding.gain is None
    assert evidence(finding) == {
        "median growth per step": 16 * MIB,
        "peak allocated memory": peak,
        "steps until memory full": ((8 << 30) - peak) // (16 * MIB),
        "traced steps": 8,
    }


def test_four_steps_are_too_few_to_call_it_growth() -> None:
    synth = Synth()
    for step in range(4):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100)
        synth.add("memory", thread="1", time=(100 * step + 1) * MS, device_type=1, device=0, bytes=64 * MIB,
                  total_allocated=64 * MIB * (step + 1), total_reserved=1 << 30)  # fmt: skip
    assert not list(GROWTH.check(synth.run()))


@pytest.mark.parametrize(
    ("allocated", "reserved", "title"),
    [
        (950, 980, "GPU memory peaks at 95 % of 1000 B"),
        (600, 950, "The allocator reserves 95 % of 1000 B, and 37 % of that is fragmented"),
        (800, 950, None),  # a tenth to a fifth unused is how a caching allocator lives
        (600, 700, None),
    ],
)
def test_full_by_tensors_or_by_fragments(allocated: int, reserved: int, title: str | None) -> None:
    synth = Synth().add("devices", device=0, memory=1000)
    synth.add("memory", thread="1", time=MS, device_type=1, device=0, bytes=allocated, total_allocated=allocated,
              total_reserved=reserved)  # fmt: skip
    found = list(FULL.check(synth.run()))
    assert [title_text(finding.title) for finding in found] == ([title] if title else [])
    for finding in found:
        assert evidence(finding)["fragmented memory at peak"] == reserved - allocated


TRAIN = """
import torch

model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
outputs = []


def keep(output):
    outputs.append(output.clone())


def main():
    for step in range(30):
        optimizer.zero_grad()
        output = model(torch.randn(1024, 512))
        output.square().mean().backward()
        optimizer.step()
        keep(output.detach())


main()
"""


@pytest.mark.slow
def test_a_real_leak_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    options = ("--out", tmp_path / "run", "--trace", "10:18", "--with", "memory,stacks", "--quiet")
    printed("run", *options, "--", sys.executable, "train.py", cwd=tmp_path)
    run = open_run(tmp_path / "run")
    (finding,) = GROWTH.check(run)
    assert evidence(finding)["median growth per step"] == pytest.approx(2 * MIB, rel=0.05)
    assert [(Path(place.file).name, place.symbol) for place in finding.where] == [("train.py", "keep")]
    (row,) = memory_kept(run).filter(steps=7).rows(named=True)
    assert (row["operator"], row["bytes"], row["blocks"], row["watched"]) == ("aten::clone", 14 * MIB, 7, 7)
