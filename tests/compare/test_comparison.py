"""Verdicts on small runs: faster, slower, the same, and inconclusive with the reason and what to do."""

import json

import pytest

from stepscope.compare.comparison import Comparison
from stepscope.compare.sentences import samples_text, verdict_text
from stepscope.core.synth import MS, Synth
from stepscope.render.format import text

from .training import compared, looped, traced


def told(comparison: Comparison) -> str:
    return text(verdict_text(comparison))


def test_a_faster_run_is_told_with_its_interval_and_steps() -> None:
    comparison = compared(looped(41.2, noise=0.1), looped(33.5, noise=0.1, seed=2))
    assert comparison.outcome.kind == "faster"
    ratio = comparison.speed.ratio
    assert ratio
    assert 1.15 < ratio.low < ratio.estimate < ratio.high < 1.31
    assert told(comparison).startswith("B is 1.2")
    assert "× as fast as A (95 % interval 1." in told(comparison)
    assert told(comparison).endswith(" per step.")


def test_the_other_way_round_everything_is_mirrored() -> None:
    a, b = looped(41.2, wait=12), looped(33.5, wait=4, seed=2)
    there, back = compared(a, b), compared(b, a)
    assert (there.outcome.kind, back.outcome.kind) == ("faster", "slower")
    assert there.speed.ratio
    assert back.speed.ratio
    mirrored = back.speed.ratio.inverse()
    assert (mirrored.estimate, mirrored.low, mirrored.high) == pytest.approx(
        (there.speed.ratio.estimate, there.speed.ratio.low, there.speed.ratio.high)
    )
    assert there.phases
    assert back.phases
    assert [row.difference for row in there.phases.rows] == [-row.difference for row in back.phases.rows]
    assert told(back).startswith("B is slower: A is 1.2")


def test_a_run_is_the_same_as_itself() -> None:
    comparison = compared(looped(), looped())
    assert comparison.outcome.kind == "same"
    assert comparison.speed.ratio
    assert comparison.speed.ratio.estimate == 1.0
    assert comparison.phases
    assert {row.difference for row in comparison.phases.rows} == {0}
    assert comparison.settings == {}
    assert told(comparison) == "No difference: A and B are the same recording, 39.9 ms per step."
    assert comparison.outcome.doubts == ()


def test_a_shift_of_times_changes_nothing() -> None:
    one, two = compared(looped(), looped(38, seed=2)), compared(looped(), looped(38, seed=2, at=1_000_000))
    assert one.speed.ratio
    assert two.speed.ratio
    assert two.speed.ratio.estimate == pytest.approx(one.speed.ratio.estimate, rel=1e-6)
    assert two.outcome == one.outcome


@pytest.mark.parametrize("factor", [2, 5])
def test_times_as_long_are_as_many_times_slower(factor: int) -> None:
    comparison = compared(looped(40), looped(40 * factor, wait=10 * factor))
    assert comparison.speed.ratio
    assert comparison.speed.ratio.estimate == pytest.approx(1 / factor, rel=1e-6)
    assert comparison.phases
    for row in comparison.phases.rows:
        assert row.ratio == pytest.approx(factor, rel=1e-6)


def test_phases_explain_the_change() -> None:
    comparison = compared(looped(40, wait=16, noise=0), looped(28, wait=4, noise=0))
    assert comparison.phases
    rows = {row.name: (row.a, row.b, row.difference, row.share) for row in comparison.phases.rows}
    assert rows["data_wait"] == (16 * MS, 4 * MS, -12 * MS, 1.0)
    assert {name for name, row in rows.items() if row[2] == 0} == {"forward", "backward", "optimizer", "other"}


def test_three_steps_are_inconclusive() -> None:
    comparison = compared(looped(40, steps=6), looped(20, steps=6, seed=2))
    assert comparison.outcome.kind == "inconclusive"
    assert [doubt.cause for doubt in comparison.outcome.because] == ["few-steps", "few-steps"]
    sentence = told(comparison)
    assert sentence.startswith("Inconclusive: A has only 3 steps; separating change from noise takes 10; record")
    assert "Seen: B 1.99× as fast as A (95 % interval 1." in sentence


def test_two_steps_carry_no_interval() -> None:
    comparison = compared(looped(40, steps=5, noise=0), looped(30, steps=9, noise=0))
    assert comparison.speed.ratio is None
    assert [doubt.cause for doubt in comparison.outcome.because] == ["few-steps", "few-steps"]
    assert told(comparison).startswith("Inconclusive: A has only 2 steps; separating change from noise takes 10;")
    assert told(comparison).endswith(" Seen: 40 ms → 30 ms per step, without an interval: two steps carry none.")
    assert told(compared(looped(steps=4), looped(steps=9))).endswith("without an interval: one step carries none.")


def test_much_noise_is_inconclusive() -> None:
    comparison = compared(looped(noise=0.5, wait=0, steps=20, seed=5), looped(noise=0.5, wait=0, steps=20, seed=4))
    assert comparison.outcome.because[-1].cause == "wide"
    assert "hides any difference; record more steps of both runs" in told(comparison)


def test_a_drift_as_large_as_the_difference_is_inconclusive_and_a_smaller_one_a_caution() -> None:
    close = compared(looped(40), looped(38, drift=0.2, seed=2))
    assert close.outcome.because[0].cause == "trend"
    assert "`torch.manual_seed(0)`" in told(close)
    far = compared(looped(40), looped(20, drift=0.2, wait=5, seed=2))
    assert far.outcome.kind == "faster"
    assert [doubt.cause for doubt in far.outcome.doubts] == ["trend"]


def busy(run: Synth, others: float, waited: float) -> Synth:
    """Samples of the machine while other programs run."""
    run.add("meta", source="launcher", key="cores", value='{"effective": 2}')
    for second in range(10):
        for what, value, rank in (("core wait", waited, 0), ("job CPU", 1.0, None), ("other CPU", others, None)):
            run.add("system", time=int((0.5 + second * 0.1) * 1e9), rank=rank, what=what, value=value, unit="cores")
    return run


def test_other_programs_on_the_cores_can_make_a_small_difference_inconclusive() -> None:
    quiet, loud = busy(looped(40), 0.0, 0.0), busy(looped(43, seed=2), 1.0, 0.1)
    comparison = compared(quiet, loud)
    assert [doubt.cause for doubt in comparison.outcome.because] == ["cores"]
    assert "other programs used the cores, at a cost of up to 20 % of each step of B; run it again" in told(comparison)
    assert compared(quiet, busy(looped(80, seed=2), 1.0, 0.1)).outcome.kind == "slower"


def test_other_batch_sizes_are_compared_by_samples() -> None:
    comparison = compared(looped(40, samples=32, noise=0), looped(60, samples=64, noise=0))
    words = samples_text(comparison)
    assert words
    assert text(words).startswith("A step has 32 samples in A, 64 in B: B processes 1.33× as many samples per second")
    assert comparison.outcome.kind == "slower"
    assert samples_text(compared(looped(40), looped(60))) is None
    assert comparison.settings["samples in a step of a rank"] == (32, 64)


def test_a_step_of_several_ranks_is_their_mean() -> None:
    two = looped(30, noise=0, rank=1, synth=looped(50, noise=0))
    comparison = compared(looped(40, noise=0), two)
    assert comparison.outcome.kind == "same"
    assert comparison.settings["ranks opened"] == (1, 2)


def test_traced_steps_are_compared_with_traced_ones() -> None:
    """A has both kinds, B a trace only: tracing makes steps longer."""
    both = traced(12)
    for number in range(30):
        both.step(100 + number, 1000 + 10 * number, 1010 + 10 * number, tags=() if number < 15 else ("traced",))
    comparison = compared(both, traced(12))
    assert comparison.speed.a
    assert comparison.speed.a.traced
    only_untraced = compared(looped(40), traced(12))
    assert [doubt.cause for doubt in only_untraced.outcome.because] == ["traced"]
    assert "B has traced steps only, A untraced ones" in told(only_untraced)


def test_kernels_operators_and_kinds_of_a_traced_step() -> None:
    comparison = compared(
        traced(time=20), traced(4, kernel="Cijk_Ailk_MT64", time=10, extra=True, device="AMD Instinct MI300X")
    )
    assert comparison.settings["device"] == ("NVIDIA A100", "AMD Instinct MI300X")
    kinds = {row.name: (row.a, row.b, row.calls_a, row.calls_b) for row in comparison.by_name["kinds of kernels"].rows}
    assert kinds == {
        "GEMM": (20 * MS, 10 * MS, 1.0, 1.0),
        "element-wise and copies": (None, 5 * MS, None, 1.0),
    }
    kernels = {row.name: row.matched for row in comparison.by_name["kernels"].rows}
    assert kernels == {
        "ampere_sgemm_128x64_tn": "vanished",
        "Cijk_Ailk_MT64": "appeared",
        "relu_kernel<float>": "appeared",
    }
    operators = {row.name: (row.a, row.b) for row in comparison.by_name["operators on the device"].rows}
    assert operators == {"aten::mm": (20 * MS, 10 * MS), "aten::relu": (None, 5 * MS)}
    for changes in (comparison.device, comparison.breakdown):
        assert changes
        assert sum(row.difference for row in changes.rows) == changes.b - changes.a


def test_without_marked_steps_what_was_recorded_is_compared() -> None:
    comparison = compared(traced(4, marks=False), traced(4, time=10))
    assert comparison.outcome.because[0].cause == "no-steps"
    assert not comparison.by_step
    kernels = {row.name: (row.a, row.b, row.calls_a) for row in comparison.by_name["kernels"].rows}
    assert kernels == {"ampere_sgemm_128x64_tn": (80 * MS, 40 * MS, 4.0)}
    assert "A has no step markers, so whole recordings are compared" in told(comparison)


def test_nothing_at_all_is_no_error() -> None:
    comparison = compared(Synth(), Synth())
    assert comparison.outcome.kind == "inconclusive"
    assert told(comparison).startswith("Inconclusive: A or B has no step markers")


def test_findings_that_went_and_came() -> None:
    waits, computes = looped(40, wait=20), looped(20, wait=0, seed=2)
    comparison = compared(waits, computes)
    gone = {found.rule: (found.a is not None, found.b is not None) for found in comparison.findings}
    assert gone["input-bound"] == (True, False)


def test_modules_are_compared_by_instance_and_by_class() -> None:
    def layers(count: int, time: float) -> Synth:
        synth = traced(1)
        for layer in range(count):
            at = 1 + 2 * layer
            synth.host(f"nn.Module: Linear_{layer}", "python", at, at + time, module_id=layer, python_id=layer)
        return synth

    comparison = compared(layers(2, 1.0), layers(3, 1.5))
    instances = {row.name: (row.a, row.b) for row in comparison.by_name["modules on the host"].rows}
    assert instances == {
        "Linear_0": (MS, 3 * MS // 2),
        "Linear_1": (MS, 3 * MS // 2),
        "Linear_2": (None, 3 * MS // 2),
    }
    (linear,) = comparison.by_name["modules by class, on the host"].rows
    assert (linear.name, linear.a, linear.b, linear.calls_a, linear.calls_b) == (
        "Linear",
        2 * MS,
        9 * MS // 2,
        2.0,
        3.0,
    )


def test_two_devices_that_take_no_steps_are_compared_by_what_they_recorded() -> None:
    comparison = compared(traced(2, marks=False), traced(3, marks=False))
    (doubt,) = comparison.outcome.because
    assert (doubt.cause, doubt.side) == ("no-steps", None)
    assert told(comparison).startswith("Inconclusive: A or B has no step markers, so whole recordings")
    assert "recorded of a rank." in told(comparison)


def test_what_others_took_comes_before_the_trend_that_follows_from_it() -> None:
    comparison = compared(busy(looped(40), 0.0, 0.0), busy(looped(44, drift=0.3, seed=2), 1.5, 0.3))
    assert [doubt.cause for doubt in comparison.outcome.because][:2] == ["cores", "trend"]


def test_the_precision_and_the_work_of_the_model_are_settings() -> None:
    def multiplies(kind: str, rows: int) -> Synth:
        synth = Synth().host("ProfilerStep#0", "annotation", 0, 40)
        shapes, types = f"[[{rows}, 1000], [1000, 1000]]", f'["{kind}", "{kind}"]'
        return synth.host("aten::mm", "operator", 1, 3, input_dims=shapes, input_types=types)

    comparison = compared(multiplies("float", 1000), multiplies("c10::BFloat16", 2000))
    assert comparison.settings == {
        "precision of most FLOPs": ("float32", "bfloat16"),
        "GFLOP in a traced step of a rank": (2.0, 4.0),
    }
    by_shapes = comparison.by_name["operators by shapes, on the host"].rows
    assert {(row.name, row.matched) for row in by_shapes} == {
        ("aten::mm [[1000, 1000], [1000, 1000]]", "vanished"),
        ("aten::mm [[2000, 1000], [1000, 1000]]", "appeared"),
    }


def job_of(command: list[str], data: str, elements: int, step: float = 40) -> Synth:
    synth = looped(step).add("meta", source="run.json", key="command", value=json.dumps(command))
    synth.add("loaders", loader=0, train=True, dataset=data, num_workers=2)
    return synth.add("optimizers", rank=0, name="SGD", elements=elements)


@pytest.mark.parametrize(
    ("b", "begin"),
    [
        ((["python", "other.py"], "Texts", 500), "Different jobs (parameters differ). B is "),
        ((["python", "other.py"], "Texts", 1000), "Different jobs (command and data set differ). B is "),
        ((["python", "train.py", "--cache"], "Cached", 1000), "B is "),
        ((["python", "train_fixed.py"], "Pictures", 1000), "B is "),
    ],
)
def test_different_jobs_are_told_first_and_a_fixed_one_is_none(b: tuple[list[str], str, int], begin: str) -> None:
    a = job_of(["/usr/bin/python3", "train.py"], "Pictures", 1000)
    assert told(compared(a, job_of(*b, step=30))).startswith(begin)
