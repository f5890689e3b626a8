"""The sections that show steps one by one: of one rank as bars, of several as a map; and memory over time."""

import pytest

from stepscope.core.report import Heatmap, Lines, Text
from stepscope.core.synth import MS, Synth
from stepscope.report.assemble import SECTIONS


def stepped(count: int, *, ranks: int = 1) -> Synth:
    synth = Synth()
    for rank in range(ranks):
        for number in range(count):
            start = 10 * number
            synth.step(
                number, start, start + 10, data_wait=4 + rank, forward=3 - rank, backward=2, optimizer=1, rank=rank
            )
    return synth


def test_each_step_is_a_bar_whose_parts_add_up() -> None:
    lines, _ = SECTIONS.get("step-times").build(stepped(5).run())
    assert isinstance(lines, Lines) and lines.stacked
    assert [line.label for line in lines.lines] == ["data wait", "forward", "backward", "optimizer", "other"]
    assert lines.lines[0].points == tuple((step, 4 * MS) for step in range(5))
    for values in zip(*(line.points for line in lines.lines), strict=True):
        assert sum(value or 0 for _, value in values) == 10 * MS


def test_of_many_steps_a_bar_is_the_mean_of_several_and_that_is_said() -> None:
    lines, text, _ = SECTIONS.get("step-times").build(stepped(1000).run())
    assert isinstance(lines, Lines) and isinstance(text, Text)
    points = list(lines.lines[0].points)
    assert len(points) == 334
    assert points[1:2] == [(3, 4 * MS)]
    assert lines.title == "Means of 3 steps each"
    assert [value.value for value in text.values] == [3, 1000]


def test_one_step_needs_no_chart() -> None:
    assert SECTIONS.get("step-times").build(stepped(1).run()) == []
    assert SECTIONS.get("rank-steps").build(stepped(5).run()) == []


def test_steps_of_several_ranks_are_a_map_with_gaps_where_nothing_was_recorded() -> None:
    synth = stepped(3, ranks=2).step(3, 30, 45, rank=1)
    (heat,) = SECTIONS.get("rank-steps").build(synth.run())
    assert isinstance(heat, Heatmap)
    assert (heat.xs, heat.ys) == ((0, 1, 2, 3), (0, 1))
    assert heat.values == ((10 * MS, 10 * MS, 10 * MS, None), (10 * MS, 10 * MS, 10 * MS, 15 * MS))


def test_memory_over_time_stands_against_the_capacity() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 10)
    for time, change, total in ((1, 100, 100), (2, 300, 400), (3, -300, 100)):
        synth.add(
            "memory", time=time * MS, bytes=change, address=change, device_type=1, device=0, total_allocated=total,
            total_reserved=512,
        )  # fmt: skip
    synth.add("devices", rank=0, device=0, name="A", memory=1000)
    lines = SECTIONS.get("memory").build(synth.run())[0]
    assert isinstance(lines, Lines)
    assert [line.label for line in lines.lines] == ["allocated", "reserved"]
    assert list(lines.lines[0].points) == [(0, 100), (MS, 400), (2 * MS, 100)]
    assert [(limit.label, limit.value) for limit in lines.limits] == [("capacity", 1000)]


@pytest.mark.parametrize("name", ["step-times", "rank-steps"])
def test_means_are_whole_nanoseconds(name: str) -> None:
    synth = Synth()
    for rank in range(2):
        for number in range(900):
            synth.step(
                number, 10 * number, 10 * number + 10 - number % 3, data_wait=1, forward=1, backward=1, rank=rank
            )
    block = SECTIONS.get(name).build(synth.run())[0]
    values = (
        [value for line in block.lines for _, value in line.points]
        if isinstance(block, Lines)
        else [value for row in block.values for value in row]
        if isinstance(block, Heatmap)
        else []
    )
    assert values
    assert all(value is None or isinstance(value, int) for value in values)
