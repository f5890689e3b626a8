"""The simulation of loaders by numpy, on all cases at a time: what the compiled one is held against."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepscope.models.loader_simulation import WAITED, Case, Course, Floats

_TOGETHER = 2.0  # threads that are to have a core at once: measured with two on two cores, and more is not known
_DONE = 1e-6  # ns: what is left of an activity that is over, but for rounding


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
        self.contention, self.at, self.cpu_contention, self.cold_cache_slowdown, self.kept, self.hold = (
            np.array([getattr(case, name) for case in cases], dtype=np.float64)
            for name in ("contention", "at", "cpu_contention", "cold_cache_slowdown", "kept", "hold")
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


def side_by_side(cases: Sequence[Case]) -> Course:
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
    """Idle feeder threads serialize what their worker has fetched."""
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
    state.left[:, -1] = np.where(begins, state.step * (1 + state.cold_cache_slowdown * waited), state.left[:, -1])
    state.demand[:, -1] = np.where(begins, state.step_cpu / np.maximum(state.step, _DONE), state.demand[:, -1])
    state.taken += begins


def _speeds(state: _State) -> Floats:
    """How fast each activity goes on, 1 as it was measured with a core to itself."""
    wanted = state.demand.sum(axis=1) + state.foreign
    part = np.where(wanted > state.cores * (1 + _DONE), state.kept * state.cores / np.maximum(wanted, 1e-9), 1.0)
    dearer = _inflation(state, np.minimum(state.cores, wanted)) / _inflation(state, state.at)
    working = np.minimum(state.demand, 1.0)  # the part of an activity in which it wants a core
    chance = part[:, None] ** np.clip(state.demand, 1.0, _TOGETHER)
    slower = dearer[:, None] * (1 + state.cpu_contention[:, None] * (1 / chance - 1))
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
