"""The section on memory: its curve, and where on the clock of the recording the curve begins."""

from stepscope.core.report import Lines
from stepscope.core.synth import MS, Synth
from stepscope.report.sections.memory.memory import SECTION


def curve(synth: Synth) -> Lines:
    (block,) = [block for block in SECTION.build(synth.run()) if isinstance(block, Lines)]
    return block


def growing(first: float) -> Synth:
    synth = Synth()
    for number in range(3):
        synth.add(
            "memory", thread="1", time=round((first + 10 * number) * MS), device_type=1, device=0, bytes=64,
            address=number + 1, total_allocated=64 * (number + 1),
        )  # fmt: skip
    return synth


def test_a_range_of_the_curve_opens_the_operators_at_their_time() -> None:
    block = curve(growing(30).host("aten::mm", "operator", 0, 60))
    assert (block.opens, block.origin, block.lines[0].points[0][0]) == ("memory_operators", 30 * MS, 0)


def test_without_operators_a_range_opens_nothing() -> None:
    assert (curve(growing(30)).opens, curve(growing(30)).origin) == ("", 0)
