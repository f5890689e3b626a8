"""Findings that save the same time are not added up."""

from dataclasses import replace

import pytest

from stepscope.core.finding import Cause, Finding, Gain, Pool, Title
from stepscope.core.report import Overlap
from stepscope.core.synth import MS, Synth
from stepscope.report.diagnose import diagnose
from stepscope.report.overlaps import held, overlaps

WAIT: dict[tuple[Pool, int], float] = {("data-wait", 0): 70.0 * MS, ("host", 0): 20.0 * MS}


def saving(
    high: float, *, cause: Cause = "data-reading", pool: Pool | None = None, ranks: tuple[int, ...] = (0,)
) -> Finding:
    gain = Gain(
        low_ns=0, high_ns=round(high * MS), step_ns=100 * MS, basis="test", confidence="structural", pool=pool
    )  # fmt: skip
    return Finding(title=Title("A problem"), cause=cause, evidence=(), gain=gain, advice=(), ranks=ranks)


def test_two_findings_about_loading_save_no_more_than_the_wait() -> None:
    assert overlaps([saving(60), saving(50)], WAIT) == (Overlap((0, 1), 70 * MS, 100 * MS),)


def test_two_small_findings_save_their_sum() -> None:
    assert overlaps([saving(10), saving(20)], WAIT) == (Overlap((0, 1), 30 * MS, 100 * MS),)


def test_a_group_never_saves_less_than_its_best_finding() -> None:
    """A cheaper loader frees cores for training too, which is more than the wait."""
    assert overlaps([saving(90), saving(50)], WAIT) == (Overlap((0, 1), 90 * MS, 100 * MS),)


def test_what_a_pool_holds_may_be_unknown() -> None:
    assert overlaps([saving(60), saving(70)], {}) == (Overlap((0, 1), 100 * MS, 100 * MS),)


@pytest.mark.parametrize(
    "others",
    [
        [],
        [saving(40, cause="scheduling")],
        [saving(50, ranks=(1,))],
        [replace(saving(50), gain=None)],
        [saving(40, cause="configuration")],
    ],
    ids=["alone", "another pool", "another rank", "saves nothing", "a setting"],
)
def test_what_shares_no_time_stays_apart(others: list[Finding]) -> None:
    assert overlaps([saving(60), *others], WAIT) == ()


def test_findings_that_together_save_more_than_the_step_overlap() -> None:
    """Of what other processes and loading cost, the wait for cores in loading is counted by both."""
    crowded = saving(50, cause="scheduling")
    assert overlaps([saving(60), crowded], WAIT) == (Overlap((0, 1), 90 * MS, 100 * MS),)
    assert overlaps([saving(60), crowded], {}) == (Overlap((0, 1), 100 * MS, 100 * MS),)
    setting = saving(50, cause="configuration")
    assert overlaps([setting, saving(60)], WAIT) == (Overlap((0, 1), 100 * MS, 100 * MS),)
    elsewhere = saving(20, ranks=(1,))
    assert overlaps([saving(60), elsewhere, crowded], WAIT) == (Overlap((0, 2), 90 * MS, 100 * MS),)


def test_a_finding_that_names_its_pool_joins_it() -> None:
    found = [saving(30), saving(50, cause="configuration", pool="data-wait"), saving(10, cause="scheduling")]
    assert overlaps(found, WAIT) == (Overlap((0, 1), 70 * MS, 100 * MS),)


def test_a_finding_of_all_ranks_joins_those_of_single_ones() -> None:
    found = [saving(30, ranks=(0,)), saving(10, cause="scheduling"), saving(20, ranks=(1,)), saving(5, ranks=(0, 1))]
    assert overlaps(found, {}) == (Overlap((0, 2, 3), 55 * MS, 100 * MS),)


def test_a_pool_holds_its_share_of_the_mean_step() -> None:
    synth = Synth()
    for step in range(20):
        synth.step(step, 100 * step, 100 * (step + 1), data_wait=60, forward=15, backward=15)
    found = held(synth.run())
    assert found["data-wait", 0] == pytest.approx(60 * MS)
    assert found["host", 0] == pytest.approx(10 * MS)
    assert held(Synth().run()) == {}


def test_idle_time_of_the_device_holds_what_recording_hides() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 1, input_dims="[[2]]").kernel(0, 30).kernel(90, 100)
    run = synth.run()
    assert held(run)["host", 0] == pytest.approx(60 * MS)
    assert diagnose(run).overlaps == ()
