"""Who waited for a core, and who had them."""

import pytest

from stepscope.analyses.host.core_waits import core_waits
from stepscope.core.errors import MissingData
from stepscope.core.synth import Synth

MS = 1_000_000


def two_ranks() -> Synth:
    """Ten steps of 100 ms on two ranks; the second ends earlier."""
    synth = Synth().add("meta", source="run.json", key="cores", value='{"effective": 4}')
    for step in range(10):
        synth.step(step, 100 * step, 100 * step + 100, forward=40, backward=50, optimizer=10)
        if step < 8:
            synth.add("steps", rank=1, step=step, start=100 * step * MS, end=(100 * step + 100) * MS, data_wait=0,
                      forward=40 * MS, backward=50 * MS, optimizer=10 * MS, other=0, clock="host")  # fmt: skip
    return synth


def measured(synth: Synth, time: int, job: float, others: float, *waits: float) -> None:
    synth.add("system", rank=None, time=time * MS, what="job CPU", value=job, unit="cores")
    synth.add("system", rank=None, time=time * MS, what="other CPU", value=others, unit="cores")
    for rank, wait in enumerate(waits):
        synth.add("system", rank=rank, time=time * MS, what="core wait", value=wait, unit="ratio")


def test_each_rank_has_the_mean_of_its_own_samples_while_it_trained() -> None:
    synth = two_ranks()
    measured(synth, 50, 9.0, 9.0, 0.9, 0.9)  # in warm-up
    measured(synth, 600, 2.0, 1.0, 0.1, 0.3)
    measured(synth, 900, 1.0, 3.0, 0.3, 0.7)  # rank 1 has ended
    assert core_waits(synth.run()).rows() == [
        (0, 20 * MS, 100 * MS, 1.5, 2.0, 4.0),
        (1, 30 * MS, 100 * MS, 2.0, 1.0, 4.0),
    ]


def test_nobody_watched() -> None:
    synth = two_ranks()
    synth.add("system", rank=None, time=600 * MS, what="job CPU", value=1.0, unit="cores")
    with pytest.raises(MissingData, match="record of core waits"):
        core_waits(synth.run())
