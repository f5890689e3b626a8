"""Which of several settings is fastest, from trials in rounds: each round tries all that are left, to and fro (ABBA),
so that a machine that becomes slower or warmer is no setting's fault. After each round the slower half is dropped
(successive halving: Karnin, Koren and Somekh 2013; Jamieson and Talwalkar 2016); the script as it is stays, because
everything is compared with it.

The interval of a ratio is the block bootstrap of the steps (compare.statistics) of the rounds that both were tried
in, widened to hold the ratio of each of these rounds: two starts of one command differ, of which the steps of one
start know nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.compare.statistics import LEAST, Ratio, speed_ratio
from stepscope.compare.verdict import SAME
from stepscope.experiments.trial_result import AS_IT_IS, Setting, Trial, TrialResult

__all__ = ["ENOUGH_ROUNDS", "MOST_ROUNDS", "Results", "SuccessiveHalving"]

ENOUGH_ROUNDS = 2
"""Starts of each setting before anything is clear."""

CLOSE = 0.03
"""Of the best pace: of settings as close as this to it, the one that takes least is meant."""

MOST_ROUNDS = 6
"""Starts of each setting after which a difference that is not clear is too small to matter."""

_SHARE = 1 / 6  # of the budget that one trial may take at most: two rounds of three settings
_LEAST_S = 30.0  # that a trial may take in any case: torch alone can take ten seconds to import
_LIKELY = 0.9  # of the time of the trials so far: with less left, the next one is not begun


@dataclass(slots=True)
class Results:
    """Every trial so far, by setting and round."""

    outcomes: dict[Setting, dict[int, TrialResult]] = field(default_factory=dict)

    def add(self, setting: Setting, number: int, outcome: TrialResult) -> None:
        """Write down a trial of round `number`."""
        self.outcomes.setdefault(setting, {})[number] = outcome

    def measured(self, setting: Setting) -> dict[int, TrialResult]:
        """The trials of a setting that have steps enough, by round."""
        return {n: outcome for n, outcome in self.outcomes.get(setting, {}).items() if len(outcome.times) >= LEAST}

    def ratio(self, setting: Setting, to: Setting = AS_IT_IS) -> Ratio | None:
        """How many times as fast `setting` is as `to`; None where they were in no round together."""
        one, other = self.measured(to), self.measured(setting)
        both = sorted(one.keys() & other.keys())
        if not both or setting == to:
            return None
        pairs = [(one[n].times, other[n].times) for n in both]
        pooled = speed_ratio(*(np.concatenate(side) for side in zip(*pairs, strict=True)))
        alone = [float(a.mean() / b.mean()) for a, b in pairs]
        return Ratio(estimate=pooled.estimate, low=min(pooled.low, *alone), high=max(pooled.high, *alone))

    def rounds(self, setting: Setting, to: Setting = AS_IT_IS) -> int:
        """In how many rounds both were measured."""
        return len(self.measured(setting).keys() & self.measured(to).keys())

    def is_clear(self, setting: Setting, to: Setting = AS_IT_IS) -> bool:
        """Whether `setting` is faster than `to`, by more than two runs of one command differ."""
        ratio = self.ratio(setting, to)
        enough = self.rounds(setting, to) >= ENOUGH_ROUNDS
        return bool(ratio and enough and ratio.low > 1 and math.log(ratio.estimate) > math.log1p(SAME))

    def is_no_better(self, setting: Setting, to: Setting = AS_IT_IS) -> bool:
        """Whether `setting` is at most faster than `to` by what two runs of one command differ."""
        ratio = self.ratio(setting, to)
        enough = self.rounds(setting, to) >= ENOUGH_ROUNDS
        return bool(ratio and enough and ratio.high < 1 + SAME)

    def pace(self, setting: Setting) -> float:
        """Its speed, that of the script as it is being 1; 0 where it was not measured."""
        if setting == AS_IT_IS:
            return 1.0
        ratio = self.ratio(setting)
        return ratio.estimate if ratio else 0.0

    def winner(self) -> Setting | None:
        """The setting to take: clearly faster than the script as it is; of about the fastest, the one that takes least.

        What goes beyond the number of workers has to be clearly faster than these workers alone.
        """
        clear = [one for one in self.outcomes if one != AS_IT_IS and self.is_clear(one)]
        if not clear:
            return None
        best = max(clear, key=self.pace)
        return min((one for one in clear if self._is_near(one, best)), key=_cost)

    def _is_near(self, setting: Setting, best: Setting) -> bool:
        alike = setting.get("num_workers") == best.get("num_workers") and not self.is_clear(best, setting)
        together = self.ratio(best, setting)
        ahead = together.estimate if together else self.pace(best) / self.pace(setting)
        return alike or setting == best or ahead <= 1 + CLOSE


@dataclass(slots=True, kw_only=True)
class SuccessiveHalving:
    """Holds rounds until something is clear, or `seconds` by `clock` are over (then `spent` is true).

    `told(setting, outcome)` is called after each trial.
    """

    trial: Trial
    seconds: float
    clock: Callable[[], float]
    told: Callable[[Setting, TrialResult], None]
    results: Results = field(default_factory=Results)
    began: float = field(init=False)
    number: int = 0
    spent: bool = False

    def __post_init__(self) -> None:
        self.began = self.clock()

    def run_trial(self, setting: Setting) -> TrialResult | None:
        """One trial in the round that is held; None if the time for it is over."""
        left = self.seconds - (self.clock() - self.began)
        walls = [outcome.wall_s for outcomes in self.results.outcomes.values() for outcome in outcomes.values()]
        if walls and left < _LIKELY * sum(walls) / len(walls):
            self.spent = True
            return None
        most = max(self.seconds * _SHARE, _LEAST_S)
        outcome = self.trial(setting, min(left, most) if walls else most)
        self.results.add(setting, self.number, outcome)
        self.told(setting, outcome)
        return outcome

    def hold(self, rivals: Sequence[Setting], against: Setting = AS_IT_IS) -> None:
        """Rounds of these settings, of `against`, which they have to beat, and of the script as it is."""
        kept = list(dict.fromkeys((AS_IT_IS, against)))
        alive = [*kept, *rivals]
        for turn in range(MOST_ROUNDS):
            for setting in alive if turn % 2 == 0 else alive[::-1]:
                if setting not in alive or self.number in self.results.outcomes.get(setting, ()):
                    continue
                outcome = self.run_trial(setting)
                if outcome is None:
                    return
                if outcome.refused:
                    alive = [one for one in alive if not _asks_for_more(one, setting)]
            self.number += 1
            rivals = self._fastest([one for one in alive if one not in kept], against)
            alive = [*kept, *rivals]
            if not rivals or (len(rivals) == 1 and self._is_decided(rivals[0], against)):
                return

    def _fastest(self, rivals: Sequence[Setting], against: Setting) -> list[Setting]:
        """The faster half of what could be measured, in their order."""
        ratios = {one: ratio.estimate for one in rivals if (ratio := self.results.ratio(one, against))}
        ranked = sorted(ratios, key=lambda one: ratios[one], reverse=True)
        return [one for one in rivals if one in ranked[: (len(ranked) + 1) // 2]]

    def _is_decided(self, rival: Setting, against: Setting) -> bool:
        return self.results.is_clear(rival, against) or self.results.is_no_better(rival, against)


def _asks_for_more(setting: Setting, refused: Setting) -> bool:
    """Whether `setting` would be refused for the same reason: only workers were asked for, and it wants as many."""
    least = int(refused.get("num_workers") or 0) if len(refused.values) == 1 else 0
    return setting == refused or (least > 1 and int(setting.get("num_workers") or 0) >= least)


def _cost(setting: Setting) -> tuple[int, int, int]:
    """Processes, batches kept ready, changes of the script."""
    return int(setting.get("num_workers") or 0), int(setting.get("prefetch_factor") or 2), len(setting.values)
