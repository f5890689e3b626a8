"""A DataLoader as a discrete-event simulation: workers, their feeder threads and the process that trains.

As torch does it, batch b belongs to worker b mod W, `prefetch` batches for each worker are ordered ahead, and one more
is ordered whenever the training process takes one, in order. A worker fetches; its feeder thread serialises beside its
next fetch; the training process takes a batch and makes a step. All threads share the cores: with more that want to run
than there are cores, each gets an equal part of nearly all of them (processor sharing), and work takes more CPU time
the more cores are busy. Training in several threads goes on while they have their cores at once, as they wait for
each other after each operator. Part of an activity is no work for a core (reading, sleeping, an accelerator); it is
spread evenly over the activity.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from stepscope.native import COMPILED

__all__ = ["WAITED", "Case", "Course", "side_by_side", "simulate"]

WAITED = 0.05
"""Of a step: one that waits less for its batch was measured to be as long as one that does not wait."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_TOGETHER = 2.0  # threads that are to have a core at once: measured with two on two cores, and more is not known
_DONE = 1e-6  # ns: what is left of an activity that is over, but for rounding


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One thing to simulate. Times in ns of a thread that has a core to itself.

    `fetch` is a row (CPU time, other time) for each batch; `feed` the CPU time of serialising one; `step` the length of
    a step and `step_cpu` its CPU time, in all threads. `foreign` threads of other programs always want a core. CPU
    times hold with `at` busy cores and grow by the share `contention` of their length on one with each busy core more.
    `crowding` scales the time that threads wait for a core: above 1 the system divides cores less well than equally.
    `kept` is the part of the cores that is in use where more threads want one than there are.
    A step that has waited for its batch takes the share `waking` longer. A worker that is at its next fetch hands a
    batch over when that has ended or, at the latest, `hold` later, as it keeps Python's lock for so long.
    """

    workers: int
    prefetch: int
    fetch: Floats
    feed: float
    step: float
    step_cpu: float
    cores: float
    foreign: float = 0.0
    contention: float = 0.0
    at: float = 1.0
    crowding: float = 1.0
    waking: float = 0.0
    kept: float = 1.0
    hold: float = 0.0


_NUMBERS = tuple(field.name for field in fields(Case) if field.name != "fetch")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """What came of each case: `ends` of its steps (a row a case, ns), mean length of a fetch and of a step, the part
    of the steps that had waited, and the mean wait for a worker that keeps Python's lock."""

    ends: Floats
    fetch: Floats
    step: Floats
    waited: Floats
    held: Floats

    def intervals(self, cases: Sequence[Case]) -> Floats:
        """Mean time from a step to the next of each case, in the second half: first what lies ready is used up.

        It is over whole rounds of the workers, which make their batches in step: a part of a round is no average.
        """
        last = self.ends.shape[1] - 1
        means = []
        for ends, case in zip(self.ends, cases, strict=True):
            rounds = max(1, last // 2 // case.workers)
            first = max(0, last - rounds * case.workers)
            means.append((ends[last] - ends[first]) / (last - first))
        return np.array(means)


class _State:
    """The threads of all cases at one moment: a row a case; workers, then feeders, then the training process."""

    def __init__(self, cases: Sequence[Case]) -> None:
        rows, self.width = len(cases), max(case.workers for case in cases)
        self.rows = np.arange(rows)
        self.lane = np.arange(self.width)
        self.workers = np.array([case.workers for case in cases])
        self.ahead = np.array([case.workers * case.prefetch for case in cases])
        self.batches = len(cases[0].fetch)
        self.fetch = np.stack([case.fetch for case in cases])
        self.feed, self.step, self.step_cpu, self.cores, self.foreign = (
            np.array([getattr(case, name) for case in cases], dtype=np.float64)
            for name in ("feed", "step", "step_cpu", "cores", "foreign")
        )
        self.contention, self.at, self.crowding, self.waking, self.kept, self.hold = (
            np.array([getattr(case, name) for case in cases], dtype=np.float64)
            for name in ("contention", "at", "crowding", "waking", "kept", "hold")
        )
        self.left = np.full((rows, 2 * self.width + 1), np.inf)
        self.demand = np.zeros_like(self.left)  # cores that the activity keeps busy where it has all it wants
        self.begun = np.zeros((rows, self.width), dtype=np.int64)  # fetches of each worker
        self.fetched, self.fed = self.begun.copy(), self.begun.copy()
        self.taken, self.done = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
        self.now, self.idle_from = np.zeros(rows), np.zeros(rows)  # when the training process ended its last step
        self.waited = np.zeros(rows)  # its steps that had to
        self.holding = np.zeros(rows, dtype=np.bool_)  # it waits for a worker that fetches
        self.answered = self.holding.copy()  # it has, for its next batch


def simulate(cases: Sequence[Case]) -> Course:
    """Run all cases, which have the same number of batches and one worker or more.

    The batches are repeated, so that workers have work to the end. `ends` of as many steps as there are batches. Raises
    ValueError for a case without workers or prefetch.
    """
    if not COMPILED:
        return side_by_side(cases)
    from stepscope.native._scanner import simulate as compiled

    fetch = np.stack([case.fetch for case in cases])
    numbers = np.array([[float(getattr(case, name)) for name in _NUMBERS] for case in cases])
    ends, means = np.zeros(fetch.shape[:2]), np.zeros((len(cases), 4))
    compiled(numbers, np.ascontiguousarray(fetch, dtype=np.float64), ends, means)
    return Course(ends=ends, fetch=means[:, 0], step=means[:, 1], waited=means[:, 2], held=means[:, 3])


def side_by_side(cases: Sequence[Case]) -> Course:
    """As `simulate`, by numpy on all cases at a time, which takes some 25 times as long."""
    state = _State(cases)
    ends = np.zeros((len(cases), state.batches))
    busy, held = np.zeros(state.left.shape), np.zeros(len(cases))
    while (going := state.done < state.batches).any():
        _begin_steps(state, going)  # it orders a batch, which a worker may begin at once
        _begin_fetches(state)
        _begin_feeds(state)
        running = np.isfinite(state.left) & going[:, None]
        speed = _speeds(state)
        passed = np.where(running, state.left / speed, np.inf).min(axis=1)
        if np.isinf(passed[going]).any():
            raise ValueError("nothing is ordered ahead")
        passed = np.where(going, passed, 0.0)
        state.left -= passed[:, None] * speed
        state.now += passed
        busy += passed[:, None] * running
        held += passed * state.holding
        _finish(state, running & (state.left <= _DONE), ends)
    width = state.width
    fetches, steps = np.maximum(state.fetched.sum(axis=1), 1), state.done
    return Course(
        ends=ends,
        fetch=busy[:, :width].sum(axis=1) / fetches,
        step=(busy[:, -1] - held) / steps,
        waited=state.waited / steps,
        held=held / steps,
    )


def _begin_fetches(state: _State) -> None:
    """Idle workers take the next batch that was ordered from them."""
    batch = state.lane + state.begun * state.workers[:, None]
    ordered = (state.ahead + state.taken)[:, None]
    left = state.left[:, : state.width]
    begins = np.isinf(left) & (state.lane < state.workers[:, None]) & (batch < ordered)
    if begins.any():
        row, worker = np.nonzero(begins)
        cpu, other = state.fetch[row, batch[row, worker] % state.batches].T
        left[row, worker] = cpu + other
        state.demand[row, worker] = cpu / np.maximum(cpu + other, _DONE)
        state.begun += begins


def _begin_feeds(state: _State) -> None:
    """Idle feeder threads serialise what their worker has fetched."""
    lanes = slice(state.width, 2 * state.width)
    begins = np.isinf(state.left[:, lanes]) & (state.fed < state.fetched)
    state.left[:, lanes] = np.where(begins, state.feed[:, None], state.left[:, lanes])
    state.demand[:, lanes] = np.where(begins, 1.0, state.demand[:, lanes])


def _begin_steps(state: _State, going: npt.NDArray[np.bool_]) -> None:
    """The training process, if it is idle, takes the next batch in order if it is there."""
    fed = state.fed[state.rows, state.taken % state.workers]
    ready = going & np.isinf(state.left[:, -1]) & (fed > state.taken // state.workers)
    fetching = np.isfinite(state.left[state.rows, state.taken % state.workers])
    holds = ready & fetching & (state.hold > 0) & ~state.answered
    state.left[holds, -1], state.demand[holds, -1] = state.hold[holds], 0.0
    state.holding |= holds
    begins = ready & ~holds
    state.answered &= ~begins
    waited = begins & (state.now - state.idle_from > WAITED * state.step)
    state.waited += waited
    state.left[:, -1] = np.where(begins, state.step * (1 + state.waking * waited), state.left[:, -1])
    state.demand[:, -1] = np.where(begins, state.step_cpu / np.maximum(state.step, _DONE), state.demand[:, -1])
    state.taken += begins


def _speeds(state: _State) -> Floats:
    """How fast each activity goes on, 1 as it was measured with a core to itself."""
    wanted = state.demand.sum(axis=1) + state.foreign
    part = np.where(wanted > state.cores * (1 + _DONE), state.kept * state.cores / np.maximum(wanted, 1e-9), 1.0)
    dearer = _inflation(state, np.minimum(state.cores, wanted)) / _inflation(state, state.at)
    working = np.minimum(state.demand, 1.0)  # the part of an activity in which it wants a core
    chance = part[:, None] ** np.clip(state.demand, 1.0, _TOGETHER)
    slower = dearer[:, None] * (1 + state.crowding[:, None] * (1 / chance - 1))
    speeds: Floats = 1 / (1 + working * (slower - 1))
    return speeds


def _inflation(state: _State, busy: Floats) -> Floats:
    return 1 + state.contention * np.maximum(busy - 1, 0.0)


def _finish(state: _State, over: npt.NDArray[np.bool_], ends: Floats) -> None:
    answers = state.holding & (over[state.rows, state.taken % state.workers] | over[:, -1])
    over[:, -1] &= ~state.holding
    state.left[answers, -1], state.demand[answers, -1] = np.inf, 0.0
    state.holding &= ~answers
    state.answered |= answers
    state.left[over] = np.inf
    state.demand[over] = 0.0
    state.fetched += over[:, : state.width]
    state.fed += over[:, state.width : -1]
    row = np.nonzero(over[:, -1])[0]
    ends[row, state.done[row]] = state.now[row]
    state.done[row] += 1
    state.idle_from[row] = state.now[row]
