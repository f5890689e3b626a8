"""The gain of input-bound where spans of loading were recorded."""

from stepscope.core.finding import Gain
from stepscope.core.run import Run
from stepscope.rules.input_pipeline.input_bound import RULE

from ...models.recorded_loading import MS, recorded


def gain(run: Run) -> Gain:
    (finding,) = RULE.check(run)
    assert finding.gain is not None
    return finding.gain


def spanless(run: Run) -> Run:
    return Run({name: table for name, table in run.tables.items() if name != "loader_spans"}, run.path)


def test_spans_narrow_it_and_it_still_holds_what_is_saved() -> None:
    """One worker takes 40 ms for a batch, training 10: with the workers that the cores allow all of 30 ms is saved."""
    run = recorded(workers=1, step=40, own=10, cores=16)
    known, narrowed = gain(spanless(run)), gain(run)
    assert known.low_ns == 15 * MS
    assert known.low_ns < narrowed.low_ns <= 30 * MS <= narrowed.high_ns <= known.high_ns
    assert "simulated" in narrowed.basis


def test_a_run_that_the_model_refuses_keeps_its_gain() -> None:
    run = recorded(workers=1, step=40, own=10, cores=16, others=12.0)
    assert gain(run) == gain(spanless(run))
