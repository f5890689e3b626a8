"""The report's section about modules."""

import pytest

from stepscope.core.errors import MissingData
from stepscope.core.report import Table, Text
from stepscope.core.synth import MS, Synth
from stepscope.report.sections.modules.modules import SECTION


def layers(synth: Synth, count: int, *, rank: int = 0) -> Synth:
    """A network whose n-th layer takes n + 1 ms, called by one at the top."""
    synth.host("nn.Module: Net_0", "python", 0, 1000, module_id=0, rank=rank)
    for number in range(count):
        start = 50 * number
        synth.host(f"nn.Module: Linear_{number}", "python", start, start + number + 1, module_id=number, rank=rank)
    return synth


def test_the_branches_that_take_most_time_in_order_of_the_tree() -> None:
    table, more, inside = SECTION.build(layers(Synth(), 12).run())
    assert isinstance(table, Table)
    assert table.columns == (("module", None), ("calls", "count"), ("forward on the host", "ns"))
    assert table.rows[:2] == (("Net_0", 1, 1000 * MS), ("Net_0.Linear_3", 1, 4 * MS))
    assert len(table.rows) == 10
    assert isinstance(more, Text)
    assert more.values[0].value == 3
    assert isinstance(inside, Text)
    assert inside.text.endswith("--where module=Net_0`")


def test_times_on_the_device_where_there_are_any() -> None:
    synth = layers(Synth(), 1).host("aten::mm", "operator", 0, 0.9)
    synth.host("cudaLaunchKernel", "runtime", 0.2, 0.3, correlation=1).kernel(5, 8, correlation=1)
    table, _ = SECTION.build(synth.run())
    assert isinstance(table, Table)
    assert table.rows == (("Net_0", 1, 3 * MS), ("Net_0.Linear_0", 1, 3 * MS))


def test_one_rank_stands_for_all() -> None:
    first, table, _ = SECTION.build(layers(layers(Synth(), 1), 2, rank=3).run())
    assert isinstance(first, Text)
    assert first.values[0].value == 0
    assert isinstance(table, Table)
    assert len(table.rows) == 2


def test_without_modules_it_says_how_to_record_them() -> None:
    with pytest.raises(MissingData, match="--with stacks,modules"):
        SECTION.build(Synth().run())
