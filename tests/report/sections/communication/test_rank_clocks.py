"""The section on the clocks of ranks: what it says of clocks that agree, differ and cannot be compared."""

from stepscope.core.report import Block, Table, Text
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.render.format import text
from stepscope.report.sections.communication.rank_clocks import SECTION

NAME = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def job(clocks: dict[int, float], hosts: dict[int, str], *, count: int = 8) -> Synth:
    """All-reduces of all ranks every 10 ms, 1 ms long; `clocks` are added, in ms."""
    synth = Synth()
    for rank, clock in clocks.items():
        synth.add("processes", rank=rank, pid=str(rank), host=hosts[rank])
        for place in range(count):
            synth.kernel(
                10 * place + clock, 10 * place + 1 + clock, NAME, rank=rank, pid=str(rank), collective="allreduce",
                group="0", group_size=len(clocks), collective_sequence=place,
            )  # fmt: skip
    return synth


def words(run: Run) -> list[str]:
    return [text(block) for block in SECTION.build(run) if isinstance(block, Text)]


def rows(blocks: list[Block]) -> list[tuple[object, ...]]:
    (table,) = [block for block in blocks if isinstance(block, Table)]
    return [row[:4] for row in table.rows]


def test_clocks_of_three_hosts() -> None:
    run = job({0: 0, 1: 17, 2: -3}, {0: "a", 1: "b", 2: "a"}).run()
    (summary, warning) = words(run)
    assert summary.startswith(
        "Against the clock of rank 0, those of 2 of 2 other ranks were measured, from shared collectives."
    )
    assert "The largest offset is 17 ms, the largest uncertainty 1 ms" in summary
    assert warning.startswith("Rank 2 and rank 0 run on one host, but their clocks differ by -3 ms ± 1 ms")
    assert rows(SECTION.build(run)) == [
        (2, "a", "other-clock", -3_000_000),
        (1, "b", "aligned", 17_000_000),
        (0, "a", "reference", 0),
    ]


def test_what_cannot_be_compared_is_said_and_why() -> None:
    synth = job({0: 0, 1: 17}, {0: "a", 1: "b"}, count=1)
    synth.kernel(500, 501, NAME, rank=1, pid="1", collective="allreduce", group="0", collective_sequence=9)
    assert words(synth.run()) == [
        "Do not compare times across ranks: against rank 0, 0 of 1 clock could be measured.",
        "The clock offset of rank 1 is unknown: only 1 collective in common with rank 0.",
    ]


def test_the_reference_is_not_one_of_those_that_could_not_be_measured() -> None:
    synth = job({0: 0, 1: 17}, {0: "a", 1: "b"}, count=0)
    for rank in (0, 1):
        synth.kernel(0, 1, NAME, rank=rank, pid=str(rank), collective="allreduce", group=str(rank))
    assert words(synth.run()) == [
        "Do not compare times across ranks: against rank 0, 0 of 1 clock could be measured.",
        "The clock offset of rank 1 is unknown: no collective in common with rank 0, nor through others.",
    ]
    assert rows(SECTION.build(synth.run()))[-1] == (0, "a", "reference", 0)


def test_one_rank_or_untraced_ranks_have_no_such_section() -> None:
    assert SECTION.build(job({0: 0}, {0: "a"}).run()) == []
    synth = Synth()
    for rank in (0, 1):
        synth.step(0, 0, 10, rank=rank).add("processes", rank=rank, pid=str(rank))
    assert SECTION.build(synth.run()) == []
