"""What recording of batches may cost: a share of the time of all of them, and a reserve for the first."""

import math

import pytest

from stepscope.collect.dataloader.overhead_budget import (
    PASSED_NS,
    SHARE,
    WATCHED_LEAST,
    WATCHED_MOST,
    WATCHED_SHARE,
    OverheadBudget,
    Reserve,
    Slowdown,
)


def test_a_budget_keeps_to_its_share_over_a_long_run() -> None:
    budget, paid, used, cost = OverheadBudget(SHARE, Reserve(0), passed=0), 0, 10_000_000, 100_000
    batches = [budget.wait()]
    for _ in range(300):
        budget.pay(cost, used, batches[-1])
        paid += cost
        batches.append(budget.wait())
    assert set(batches[1:]) == {3, 4}  # 100 µs are a share of 30 µs each 3.3 batches
    assert 0.99 < paid / (SHARE * used * sum(batches)) < 1.01


def test_a_reserve_pays_for_the_first_batches_of_all_budgets_and_no_more() -> None:
    reserve = Reserve(1_000_000)
    first, second = OverheadBudget(SHARE, reserve, passed=0), OverheadBudget(SHARE, reserve, passed=0)
    for _ in range(5):
        for budget in (first, second):
            assert budget.wait() == 1
            budget.pay(100_000, 1_000_000, 1)
    assert (first.wait(), second.wait()) == (1, 1)  # each batch earned 3 µs
    assert reserve.left == pytest.approx(30_000)
    for budget in (first, second):
        budget.pay(100_000, 1_000_000, 1)
    assert reserve.left == 0
    assert (first.wait(), second.wait()) == (23, 33)


def test_what_is_saved_up_is_little_and_short_batches_pay_for_the_counters() -> None:
    budget = OverheadBudget(SHARE, Reserve(0))
    budget.pay(0, 10**12, 1)  # a batch of a quarter of an hour
    for _ in range(20):
        assert budget.wait() == 1
        budget.pay(100_000, 1_000, 1)
    budget.pay(100_000, 5_000_000, 1)
    assert budget.wait() == math.ceil((100_000 - 7_500) / 7_500)  # less 10 µs, but half of the share at least
    budget = OverheadBudget(SHARE, Reserve(0))
    budget.pay(300_000, 20_000_000, 1)
    assert budget.wait() == math.ceil(300_000 / (60_000 - PASSED_NS)) - 1


def test_whoever_wants_all_gets_it() -> None:
    budget = OverheadBudget(math.inf, Reserve(0))
    budget.pay(10**9, 0, 1)
    assert budget.wait() == 1


def test_what_watching_costs_is_told_by_batches_with_and_without() -> None:
    slowdown = Slowdown()
    for _ in range(2):
        slowdown.add(90_000_000, 32, False)  # the first is left out, and so is the first that is watched
        slowdown.add(90_000_000, 32, True)
    assert (slowdown.share(), slowdown.sure_share()) == (WATCHED_SHARE, 0)
    for watched, used in ((False, 64_000_000), (True, 80_000_000)):
        for turn in range(100):
            slowdown.add(used + (turn % 3 - 1) * 1_000_000, 32, watched)
    assert slowdown.share() == pytest.approx(0.2, abs=0.02)
    assert slowdown.sure_share() == pytest.approx(0.2, abs=0.02)


def test_what_chance_may_hide_is_paid_for_and_nothing_is_never_free() -> None:
    even, uneven = Slowdown(), Slowdown()
    for turn in range(40):
        even.add(64_000_000, 32, bool(turn % 2))
        uneven.add(64_000_000 + turn // 2 % 2 * 32_000_000, 32, bool(turn % 2))
    assert even.share() == WATCHED_LEAST < 0.04 < uneven.share() < 0.1
    assert (even.sure_share(), uneven.sure_share()) == (0, 0)
    for _ in range(40):
        even.add(10**12, 1, True)
    assert even.share() == WATCHED_MOST
