"""When workers are in the way of training, and when they are worth their cores."""

import pytest

from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.models.loader_model import fit
from stepscope.models.pipeline import pipeline
from stepscope.report.diagnose import RULES, diagnose


def contended(
    *, threads: int = 2, making: float = 8, used: float = 1.97, others: float = 0.0, device: bool = False
) -> Run:
    """Four workers beside training on 2 cores: steps of 23 ms that wait for 2 of them; a batch takes `making` of CPU
    time, and as long a wait for a core."""
    synth = Synth().add("meta", source="run.json", key="cores", value='{"effective": 2}')
    synth.add("processes", threads=threads)
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=4, prefetch_factor=2)
    for step in range(40):
        at = 23.0 * step
        synth.step(step, at, at + 23, data_wait=2, forward=10, backward=11, device_duration=20 if device else None)
        synth.span("fetch", step, step % 4, at, at + 2 * making, cpu=round(making * MS))
        synth.span("serialize", step, step % 4, at + 2 * making, at + 2 * making + 0.5, cpu=MS // 2)
        synth.span("receive", step, None, at, at + 1.5, cpu=MS)
        for what, value in (("job CPU", used), ("other CPU", others), ("helper core wait", making / 23)):
            synth.add("system", time=round((at + 11) * MS), rank=None, what=what, value=value, unit="cores")
    return synth.run()


def test_workers_on_the_cores_of_training_are_too_many() -> None:
    """As measured: two threads on two cores, 22 to 25 ms beside workers that need 8 ms for a batch, 13 to 15 alone."""
    (found,) = RULES.get("too-many-workers").check(contended())
    assert found.gain is not None
    assert found.gain.high_ns > 8 * MS
    assert found.gain.basis.startswith("simulated: num_workers=0 instead of 4")
    assert [advice.code for advice in found.advice] == [
        "DataLoader(..., num_workers=0)",
        "stepscope tune loader -- COMMAND",
    ]
    assert {row.label: row.value for row in found.evidence}["training threads"] == 2


@pytest.mark.parametrize("run", [contended(threads=1, used=1.3), contended(making=20)])
def test_workers_that_are_worth_their_cores_are_not_too_many(run: Run) -> None:
    """Training that has one core; batches that would take the training process long."""
    assert not list(RULES.get("too-many-workers").check(run))


@pytest.mark.parametrize(("workers", "rules"), [(1, ["too-many-workers", "slow-transform"]), (4, ["too-many-workers"])])
def test_the_line_that_keeps_a_worker_busy_is_named_beside_the_setting(workers: int, rules: list[str]) -> None:
    """Steps of 22 ms that wait for 2 of them, beside 8 ms of smoothing a batch, which take twice as long on full cores:
    one worker is busy for 17 ms of each 22, four are idle for most of their time."""
    synth = Synth().add("processes", threads=2)
    parts = (("sample", "data.Smoothed", 15.5, 7.7), ("collate", "torch.utils.data._utils.collate.c", 1.5, 0.7))
    synth.loading(length=22, own=20, workers=workers, cores=2, parts=parts, feed=0.3, used=1.94, waited=8.5 / 22)
    for step in range(40):
        synth.span("receive", step, None, 22 * step, 22 * step + 1.5, cpu=MS)
    assert [block.rule for block in diagnose(synth.run()).findings] == rules


def test_what_a_device_did_during_a_wait_is_to_be_known() -> None:
    with pytest.raises(MissingData, match="what the device did"):
        list(RULES.get("too-many-workers").check(contended(device=True)))


def test_beside_other_programs_nothing_is_said() -> None:
    with pytest.raises(MissingData, match="load from other programs"):
        list(RULES.get("too-many-workers").check(contended(others=0.3)))


@pytest.mark.parametrize(("making", "found"), [(0.3, True), (1.2, False)])
def test_batches_that_take_longer_to_hand_over_than_to_make(making: float, found: bool) -> None:
    """Steps of 2 ms, of which 0.5 train, where the simulation is wrong by a third: if batches take long enough that
    some unrecorded ones may be the reason, nothing is said."""
    synth = Synth().add("meta", source="run.json", key="cores", value='{"effective": 2}')
    synth.add("loaders", loader=0, train=True, dataset="Rows", num_workers=2, prefetch_factor=2)
    for step in range(2000):
        at = 2.0 * step
        synth.step(step, at, at + 2, data_wait=1.5, forward=0.3, backward=0.2)
        synth.span("fetch", step, step % 2, at, at + making, cpu=round(making * MS))
        synth.span("receive", step, None, at, at + 0.8, cpu=round(0.4 * MS))
        if step % 500 == 0:
            for what, value in (("job CPU", 1.4), ("other CPU", 0.0)):
                synth.add("system", time=round((at + 1) * MS), rank=None, what=what, value=value, unit="cores")
    run = synth.run()
    with pytest.raises(MissingData, match="input pipeline that the model describes"):
        fit(pipeline(run, 0))
    if not found:
        with pytest.raises(MissingData, match="input pipeline that the model describes"):
            list(RULES.get("too-many-workers").check(run))
        return
    (finding,) = RULES.get("too-many-workers").check(run)
    assert finding.gain is not None
    assert finding.gain.low_ns < 1.2 * MS < finding.gain.high_ns
