"""The section of flame graphs: trees that add up, that say what `show` says, and of which nothing is lost when cut."""

from collections import defaultdict

import polars as pl
import pytest

from stepscope.analyses.host.line_tree import line_tree
from stepscope.analyses.operators.operator_tree import operator_tree
from stepscope.core.errors import MissingData
from stepscope.core.report import Flame
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.format import text
from stepscope.report.sections.host.flame_graph import MOST, SECTION

from ..test_sections import RUNS


def flames(run: Run) -> list[Flame]:
    return [block for block in SECTION.build(run) if isinstance(block, Flame)]


def adds_up(flame: Flame) -> None:
    below: dict[int, int] = defaultdict(int)
    for at, node in enumerate(flame.nodes):
        assert node.parent < at
        assert node.own >= 0
        if node.parent >= 0:
            below[node.parent] += node.total
    for at, node in enumerate(flame.nodes):
        assert node.own + below[at] == node.total


def bushy(width: int) -> Run:
    """A step of a second with so many lines below one frame, each with a library below it."""
    synth = Synth()
    for step in range(4):
        synth.step(step, 1000 * step, 1000 * step + 1000)
    for line in range(1, width + 1):
        synth.add("stacks", step=3, time=line, weight=line, phase="other", collector=False, file="/me/a.py", line=line,
                  function="f", frames=["/me/a.py:1 main", f"/me/a.py:{line} f"], call="PIL/Image.py:1 resize",
                  leaf="PIL/Image.py:2 core")  # fmt: skip
    return synth.run()


@pytest.mark.parametrize("name", ["full", "cpu", "hostile"])
def test_trees_of_every_run_add_up(name: str) -> None:
    found = flames(RUNS[name]())
    assert found
    for flame in found:
        adds_up(flame)


def test_what_is_cut_is_summed_up_below_its_parent() -> None:
    (flame,) = flames(bushy(2000))
    adds_up(flame)
    rest = [node for node in flame.nodes if flame.frames[node.frame].kind == "rest"]
    kept = len(flame.nodes) - len(rest)
    assert kept == MOST
    names = [flame.frames[node.frame].name for node in rest]
    assert sum(int(name.split()[0]) for name in names) == 3 * 2000 + 3 - MOST
    assert flame.nodes[0].total == 1000 * MS
    tree = line_tree(bushy(2000))
    assert sum(node.calls for node in flame.nodes if node.parent == 2) == tree.filter(depth=3)["calls"].sum()


def test_the_section_tells_what_show_tells() -> None:
    run = RUNS["full"]()
    lines, *threads = flames(run)
    tree = line_tree(run)
    assert [(lines.frames[node.frame].name, node.own, node.total, node.calls) for node in lines.nodes] == list(
        tree.select("name", "self", "total", "calls").iter_rows()
    )
    operators = operator_tree(run)
    assert [flame.nodes[0].total for flame in threads] == operators.filter(node=0)["total"].to_list()
    assert {flame.steps for flame in threads} == {3}


def test_the_rank_with_the_longest_steps_is_shown_and_named() -> None:
    synth = Synth()
    for rank in range(3):
        for step in range(4):
            synth.step(step, 100 * step, 100 * step + 10 + rank, rank=rank)
        synth.add("stacks", rank=rank, step=3, time=1, weight=1, phase="other", collector=False, file="/me/a.py",
                  line=rank + 1, function="f")  # fmt: skip
    (flame,) = flames(synth.run())
    assert flame.title == "Lines of your code, rank 2, whose steps are longest"
    assert flame.nodes[0].total == 12 * MS


def test_threads_that_are_not_shown_are_counted() -> None:
    synth = Synth()
    for thread in range(6):
        synth.host("aten::mm", "operator", 0, 10 + thread, thread=str(thread))
    *shown, left = SECTION.build(synth.run())
    assert [getattr(block, "title", "") for block in shown] == [f"Operators, thread {at}" for at in (5, 4, 3, 2)]
    assert text(left) == "2 more threads with 21 ms in all: `stepscope show operator_tree PATH`"  # type: ignore[arg-type]


def test_workers_have_their_own_trees() -> None:
    synth = Synth().add(
        "worker_stacks", pid="7", worker=0, loader=0, time=1, weight=5 * MS, file="/me/a.py", line=3, function="f",
        frames=["/me/a.py:3 f"],
    )  # fmt: skip
    (flame,) = flames(synth.run())
    assert flame.title == "Lines of the workers of loader 0"
    assert (flame.nodes[0].total, flame.source) == (5 * MS, "loader_line_tree")


def test_without_samples_and_trace_it_says_how_to_record_them() -> None:
    with pytest.raises(MissingData) as lack:
        SECTION.build(Synth().run())
    assert lack.value.how


def test_a_real_report_has_both_kinds(corpus: object) -> None:
    from stepscope.storage import open_run

    for flame in flames(open_run([f"{corpus}/traces/local/cpu_mlp"])):
        adds_up(flame)
        assert len(flame.nodes) <= 2 * MOST
        assert pl.Series([node.calls for node in flame.nodes]).min() == 0  # of the thread itself
