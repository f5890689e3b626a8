"""A DataLoader as a discrete-event simulation: workers, their feeder threads and the process that trains.

As torch does it, batch b belongs to worker b mod W, `prefetch` batches for each worker are ordered ahead, and one more
is ordered whenever the training process takes one, in order. A worker fetches; its feeder thread serializes beside its
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

from stepscope.native import _scanner

__all__ = ["WAITED", "Case", "Course", "simulate"]

WAITED = 0.05
"""Of a step: one that waits less for its batch was measured to be as long as one that does not wait."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """One thing to simulate. Times in ns of a thread that has a core to itself."""

    workers: int
    prefetch: int
    fetch: Floats  # a row (CPU time, other time) for each batch
    feed: float  # CPU time of serializing a batch
    step: float
    step_cpu: float  # CPU time of a step, in all threads
    cores: float
    foreign: float = 0.0  # threads of other programs that always want a core
    contention: float = 0.0  # part of their length on one core by which CPU times grow with each busy core more
    at: float = 1.0  # busy cores with which the CPU times hold
    cpu_contention: float = 1.0  # factor of waits for a core: above 1 the system divides cores less well than equally
    cold_cache_slowdown: float = 0.0  # part by which a step takes longer that has waited for its batch
    kept: float = 1.0  # part of the cores that is in use where more threads want one than there are
    hold: float = 0.0
    """A worker that is at its next fetch hands a batch over when that has ended or, at the latest, so much later: it
    keeps Python's lock for so long."""


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


def simulate(cases: Sequence[Case]) -> Course:
    """Run all cases, which have the same number of batches and one worker or more.

    The batches are repeated, so that workers have work to the end. `ends` of as many steps as there are batches. Raises
    ValueError for a case without workers or prefetch.
    """
    fetch = np.stack([case.fetch for case in cases])
    numbers = np.array([[float(getattr(case, name)) for name in _NUMBERS] for case in cases])
    ends, means = np.zeros(fetch.shape[:2]), np.zeros((len(cases), 4))
    _scanner.simulate(numbers, np.ascontiguousarray(fetch, dtype=np.float64), ends, means)
    return Course(ends=ends, fetch=means[:, 0], step=means[:, 1], waited=means[:, 2], held=means[:, 3])
