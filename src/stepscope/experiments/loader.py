"""The settings of the DataLoader that trains: which to try, in which order, and what came of it.

First the number of workers, then, with the best of them, how many batches each keeps ready, whether workers stay from
epoch to epoch, and pinned memory.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscope.analyses.input_pipeline.lib.loader_facts import MOST_WORKERS
from stepscope.compare.statistics import LEAST, Ratio, speed_ratio
from stepscope.core.errors import BadInput
from stepscope.experiments.successive_halving import ENOUGH_ROUNDS, Results, SuccessiveHalving
from stepscope.experiments.trial_result import AS_IT_IS, Loader, Setting, Trial, TrialResult

__all__ = ["Row", "TuneAnswer", "initial_workers", "tune_loader", "workers_to_try"]

NOTHING_WAITS = 0.01
"""Of the step: the gain of ending less waiting than that cannot be told from the noise between two starts."""

_MOST_TRIED = 5  # numbers of workers: in three rounds one of them is left
_DEEPER = 4  # batches that a worker keeps ready, instead of torch's 2: evens out samples of unequal cost
_FEW_STEPS = 10  # in a trial: of fewer, the autocorrelation, and with it the interval, cannot be told
Why = Literal["faster", "nothing-waits", "refused", "failed", "not-clear", "budget"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting: ns of its median step, mean share of the step that waits for data, and its trials.

    `step` is the mean step (ns) and the ends of its 95 % interval, None where there are too few steps. `ratio` is how
    many times as fast it is as the script as it is. `left_out` says why there are no steps.
    """

    setting: Setting
    median: float | None
    wait: float | None
    ratio: Ratio | None
    trials: int
    steps: int
    step: Ratio | None = None
    left_out: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneAnswer:
    """What to set: `winner` is None where nothing is clearly faster, and `why` says why.

    `rows` begin with the script as it is; `loader` is what it has. Seconds and trials are those of all. `others` is the
    part of the cores that other programs used in the trial in which they used most, None if none was long enough to
    tell.
    """

    winner: Setting | None
    why: Why
    rows: tuple[Row, ...]
    loader: Loader
    seconds: float
    trials: int
    others: float | None = None

    def row(self, setting: Setting) -> Row:
        """The row of a setting that was tried."""
        return next(row for row in self.rows if row.setting == setting)


def tune_loader(
    trial: Trial,
    *,
    cores: float,
    seconds: float,
    clock: Callable[[], float],
    told: Callable[[Setting, TrialResult, Results], None],
    hint: Setting | None = None,
    only: Sequence[int] = (),
) -> TuneAnswer:
    """Find the best setting in `seconds` by `clock`. Raises BadInput for a job without steps.

    `hint` is tried first; `only` are the numbers of workers to try, if not those that the cores make likely.
    """
    results = Results()
    halving = SuccessiveHalving(
        trial=trial,
        seconds=seconds,
        clock=clock,
        results=results,
        told=lambda setting, outcome: told(setting, outcome, results),
    )
    own = halving.run_trial(AS_IT_IS)
    assert own is not None, "the first trial is always made"
    loader = _checked(own)
    waits = not _nothing_waits(own)
    known = hint.get("num_workers") if hint else None
    first = initial_workers(own) if known is None else int(known)
    tried = [n for n in only if n != loader.workers] if only else workers_to_try(own, cores / own.ranks, first)
    if waits:
        halving.hold([Setting((("num_workers", number),)) for number in tried])
    further = list(_further(halving.results))
    if not waits and not further:
        return _result(halving, loader, "nothing-waits", cores)
    if further and not halving.spent:
        halving.hold(further, against=halving.results.winner() or AS_IT_IS)
    return _result(halving, loader, _why(halving), cores)


def initial_workers(own: TrialResult) -> int | None:
    """How many workers to try first: what the simulation of the recorded loader asks for, else the law of the loader:
    those that make a batch in the time of a step; None: no idea.

    The law takes the step without its wait for the time that training takes, and the wait (without workers), or the
    workers' time (where training waits for them), for that of a batch.
    """
    assert own.loader is not None
    step = float(own.times.mean())
    wait = own.wait or 0.0
    if wait < NOTHING_WAITS * step:
        return None
    if own.initial_workers is not None:
        return own.initial_workers
    batch = step * own.loader.workers if own.loader.workers else wait
    return max(1, min(MOST_WORKERS, math.ceil(batch / max(step - wait, step / MOST_WORKERS))))


def workers_to_try(own: TrialResult, cores: float, first: int | None) -> list[int]:
    """Numbers of workers, the likeliest first: powers of two up to twice the cores, and `first`; not its own."""
    assert own.loader is not None
    most = min(MOST_WORKERS, max(2, 2 * math.ceil(cores)))
    ladder = {0, *(2**power for power in range(MOST_WORKERS.bit_length()) if 2**power <= most)}
    target = first if first is not None else min(math.ceil(cores), MOST_WORKERS)
    numbers = (ladder | {target}) - {own.loader.workers}
    return sorted(numbers, key=lambda number: (abs(math.log2((number + 1) / (target + 1))), number))[:_MOST_TRIED]


def _checked(own: TrialResult) -> Loader:
    if own.failed is not None:
        raise BadInput("the job as it is", own.failed, next_step="see that it trains: stepscope run -- COMMAND")
    if own.loader is None or len(own.times) < _FEW_STEPS:
        why = f"its trial made {len(own.times)} steps after warm-up; {_FEW_STEPS} are the least that say something"
        raise BadInput("the job as it is", why, next_step="train longer, or give it more time with --budget")
    return own.loader


def _nothing_waits(own: TrialResult) -> bool:
    """Whether no number of workers can win: where none take cores from training, the wait is all there is to win."""
    alone = own.gpu or (own.loader is not None and own.loader.workers == 0)
    return alone and _waits_little(own)


def _waits_little(outcome: TrialResult) -> bool:
    return outcome.wait is not None and outcome.wait < NOTHING_WAITS * float(outcome.times.mean())


def _further(results: Results) -> Iterator[Setting]:
    """The other settings, each on top of the best number of workers."""
    base = results.winner() or AS_IT_IS
    measured = list(results.measured(base).values())
    loader = measured[0].loader
    assert loader is not None, "a trial with steps has a loader"
    waits = loader.workers and not all(_waits_little(outcome) for outcome in measured)
    if waits and (loader.prefetch or 0) < _DEEPER:
        yield base.with_("prefetch_factor", _DEEPER)
    if waits and not loader.persistent and any(outcome.epochs for outcome in measured):
        yield base.with_("persistent_workers", True)
    if not loader.pinned and measured[0].gpu:
        yield base.with_("pin_memory", True)


def _why(halving: SuccessiveHalving) -> Why:
    results = halving.results
    if results.winner():
        return "faster"
    last = [list(outcomes.values())[-1] for one, outcomes in results.outcomes.items() if one != AS_IT_IS]
    if last and all(outcome.refused for outcome in last):
        return "refused"
    if last and all(outcome.refused or outcome.failed for outcome in last):
        return "failed"
    rivals = [one for one in results.outcomes if one != AS_IT_IS and results.measured(one)]
    fastest = max(rivals, key=results.pace, default=AS_IT_IS)
    return "budget" if halving.spent and results.rounds(fastest) < ENOUGH_ROUNDS else "not-clear"


def _result(halving: SuccessiveHalving, loader: Loader, why: Why, cores: float) -> TuneAnswer:
    results = halving.results
    outcomes = [outcome for rounds in results.outcomes.values() for outcome in rounds.values()]
    others = max((outcome.others for outcome in outcomes if outcome.others is not None), default=None)
    return TuneAnswer(
        winner=results.winner() if why == "faster" else None,
        why=why,
        rows=tuple(_row(results, setting) for setting in results.outcomes),
        loader=loader,
        seconds=halving.clock() - halving.began,
        trials=len(outcomes),
        others=None if others is None else others / cores,
    )


def _row(results: Results, setting: Setting) -> Row:
    outcomes = list(results.outcomes[setting].values())
    measured = list(results.measured(setting).values())
    last = outcomes[-1]
    if not measured:
        why = last.refused or last.failed or "too few steps"
        return Row(setting=setting, median=None, wait=None, ratio=None, trials=len(outcomes), steps=0, left_out=why)
    times = np.concatenate([outcome.times for outcome in measured])
    waits = [(outcome.wait, outcome.times) for outcome in measured if outcome.wait is not None]
    waited = sum(wait * len(times) for wait, times in waits)
    watched = sum(float(times.sum()) for _, times in waits)
    return Row(
        setting=setting,
        median=float(np.median(times)),
        wait=waited / watched if watched else None,
        ratio=results.ratio(setting),
        trials=len(outcomes),
        steps=len(times),
        step=speed_ratio(times, np.ones(len(times))) if len(times) >= LEAST else None,
    )
