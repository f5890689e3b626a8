"""One step, one number: headline, bar and findings of one screen tell a quantity once, of one rank on one clock."""

from collections.abc import Iterator

import pytest

from stepscope.core.finding import Finding
from stepscope.core.report import WORTH_TELLING, Bars
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.render.card import cards
from stepscope.render.format import quantity
from stepscope.report.assemble import assemble
from stepscope.report.diagnose import RULES, diagnose
from stepscope.report.step_bar import step_bar

from ..examples import example

QUANTITIES = {"input": "data wait", "communication": "communication", "memory": "copies"}
LABELS = {"data wait per step": "data wait", "exposed communication per step": "communication"}
TITLES = {"input-bound": "data wait", "exposed-communication": "communication"}


def told(run: Run) -> Iterator[tuple[str, str, str]]:
    """Quantity, who tells it, and its share of the step as a reader sees it."""
    diagnosis = diagnose(run)
    verdict = diagnosis.verdict
    if verdict.bound in QUANTITIES and verdict.share is not None:
        yield QUANTITIES[verdict.bound], "headline", quantity(verdict.share - verdict.core_wait, "ratio")
    if verdict.core_wait >= WORTH_TELLING:
        yield "waiting for a core", "headline", quantity(verdict.core_wait, "ratio")
    for block in step_bar(run):
        if isinstance(block, Bars):
            whole = sum(part.value for part in block.parts)
            for part in block.parts:
                yield part.label, "bar", quantity(part.value / whole, "ratio")
    for block in diagnosis.findings:
        if verdict.rank in block.finding.ranks:
            yield from of_finding(block.rule, block.finding)


def of_finding(rule: str, finding: Finding) -> Iterator[tuple[str, str, str]]:
    for row in finding.evidence:
        if row.label in LABELS and row.share is not None:
            yield LABELS[row.label], f"evidence of {rule}", quantity(row.share, "ratio")
    if rule in TITLES:
        (share,) = [part for part in finding.title.figures if not isinstance(part, str) and part.unit == "ratio"]  # type: ignore[union-attr]
        yield TITLES[rule], f"title of {rule}", quantity(share.value, "ratio")  # type: ignore[union-attr]


def disagreements(run: Run) -> dict[str, dict[str, str]]:
    """Quantities told with more than one share."""
    by_quantity: dict[str, dict[str, str]] = {}
    for what, who, share in told(run):
        by_quantity.setdefault(what, {})[who] = share
    return {what: shares for what, shares in by_quantity.items() if len(set(shares.values())) > 1}


@pytest.mark.parametrize("name", RULES.load())
def test_examples_of_rules(name: str) -> None:
    assert disagreements(example(name)) == {}


def traced(*, lag: float = 0, ranks: tuple[float, ...] = (40,), probe: float | None = None) -> Run:
    """Four traced steps of 100 ms for each rank; each waits for data, computes, and sends for 15 ms.

    `lag` is how much longer the device works after the last step; with `probe` untraced steps of that length are timed.
    """
    synth = Synth()
    for rank, wait in enumerate(ranks):
        for step in range(4):
            start = 100 * step
            synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100, rank=rank)
            loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
            synth.host(loader, "annotation", start, start + wait, rank=rank)
            synth.host("aten::mm", "operator", start + wait, start + 98, rank=rank)
            synth.kernel(start + wait - 10, start + 80, rank=rank)
            end = start + 95 + (lag if step == 3 else 0)
            synth.kernel(start + 80, end, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream="9", rank=rank)
        if probe is not None:
            for step in range(12):
                synth.step(step, probe * step, probe * (step + 1), data_wait=0.4 * probe, forward=1, rank=rank)
    return synth.run()


@pytest.mark.parametrize(
    "run",
    [
        traced(),
        traced(lag=50),
        traced(ranks=(38, 40)),
        traced(ranks=(40, 38), lag=50),
        traced(ranks=(8, 40)),
        traced(probe=80),
        traced(probe=130, lag=30),
    ],
    ids=["trace", "the device lags", "ranks alike", "ranks lag", "one rank waits", "shorter steps", "longer steps"],
)
def test_traces_of_devices(run: Run) -> None:
    assert len({who for _, who, _ in told(run)}) >= 3, "headline, bar and a finding tell something"
    assert disagreements(run) == {}


def test_a_profiler_that_stops_adds_no_step() -> None:
    synth = Synth()
    for step in range(3):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * (step + 1))
    for step in range(2):
        synth.host("aten::mm", "operator", 100 * step + 10, 100 * step + 90).kernel(100 * step + 20, 100 * step + 95)
    assert diagnose(synth.run()).verdict.step_ns == pytest.approx(100e6)


def test_a_finding_of_another_rank_says_so() -> None:
    synth = Synth()
    for rank, wait in enumerate((60, 20)):
        for step in range(12):
            synth.step(step, 100 * step, 100 * (step + 1), data_wait=wait, forward=100 - wait, gc=30 * rank, rank=rank)
    report = assemble(synth.run())
    whys = {card.title.split(" ")[0]: card.why[0] for card in cards(report)}
    assert whys["Python's"].startswith("rank 1: ")
    assert whys["Training"].startswith("data wait per step")
