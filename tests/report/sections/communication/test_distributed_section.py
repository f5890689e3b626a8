"""The section on communication between ranks: groups, late ranks, and what could not be matched."""

from stepscope.core.plugins import PluginGroup
from stepscope.core.report import Bars, Table, Text
from stepscope.core.run import Analysis
from stepscope.core.synth import Synth
from stepscope.render.format import text
from stepscope.report.sections.communication.distributed import _UNMATCHED, SECTION

ANALYSES = PluginGroup("analyses", Analysis)
NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def test_groups_late_ranks_and_what_was_not_matched() -> None:
    synth = Synth()
    for place, arrivals in enumerate(((0, 3), (20, 24), (40,))):
        for rank, start in enumerate(arrivals):
            synth.kernel(
                start, 20 * place + 10, NAME, rank=rank, collective="allreduce", group="0", group_size=2,
                collective_sequence=place, dtype="Float", in_elements=10, out_elements=10,
            )  # fmt: skip
    groups, longest, late, unmatched = SECTION.build(synth.run())
    assert isinstance(groups, Table)
    ms = 1_000_000
    assert groups.rows[0][:9] == (0, "0", None, "all_reduce", 3, 120, 13 * ms, 7 * ms, 30 * ms)
    assert groups.rows[1][:9] == (1, "0", None, "all_reduce", 2, 80, 13 * ms, 0, 13 * ms)
    assert isinstance(longest, Table)
    assert longest.rows[0][:2] == (0, "all_reduce")
    assert [row[4] for row in longest.rows] == [10 * ms, 10 * ms, 10 * ms, 7 * ms, 6 * ms]
    assert isinstance(late, Table)
    assert late.rows == ((1, "0", 2, 1.0, 7 * ms, 3.5 * ms, None, 4 * ms, None),)
    assert isinstance(unmatched, Text)
    assert (
        text(unmatched) == "1 of 5 collectives have no counterpart on another rank: no other rank's trace holds them."
    )


def test_every_reason_is_put_into_words() -> None:
    page = ANALYSES.page("collectives")
    listed = {word for line in page.splitlines() if line.startswith("- ") for word in line.split("`")[1::2]}
    assert listed == set(_UNMATCHED)


def test_one_rank_opened_alone_shows_its_groups_and_no_lack_of_others() -> None:
    synth = Synth().kernel(0, 5, NAME, collective="allreduce", group="0", collective_sequence=1)
    groups, _ = SECTION.build(synth.run())
    assert isinstance(groups, Table)
    assert groups.rows[0][:3] == ("0", None, "all_reduce")


def test_a_job_of_one_rank_has_no_such_section() -> None:
    assert SECTION.build(Synth().kernel(0, 1).run()) == []


def test_the_steps_that_communicate_most_and_least_stand_above_each_other() -> None:
    synth = Synth()
    for rank, exposed in enumerate((10, 40, 20)):
        synth.host("ProfilerStep#0", "annotation", 0, 100, rank=rank)
        synth.kernel(0, 50, rank=rank)
        synth.kernel(50, 50 + exposed, NAME, rank=rank, collective="allreduce", group="0", collective_sequence=1)
    bars = [block for block in SECTION.build(synth.run()) if isinstance(block, Bars)]
    assert [block.title for block in bars] == ["Mean traced step of rank 1", "Mean traced step of rank 0"]
    assert [part.value / 1e6 for part in bars[0].parts] == [50, 0, 40, 10]
    assert {block.whole for block in bars} == {1e8}
