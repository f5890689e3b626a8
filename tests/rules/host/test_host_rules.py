"""Host code on the CPU: what is named, and what is advised."""

import pytest

from stepscope.core.finding import Finding
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.render.format import title_text
from stepscope.report.diagnose import diagnose

TRAIN = "/home/me/dqn.py"


def found(run: Run) -> list[Finding]:
    return [block.finding for block in diagnose(run).findings]


def environment(*, work: dict[int, float], inside: float, source: dict[int, str] | None = None) -> Run:
    """Steps of 100 ms before a backward of 15 and an optimizer of 5: lines of forward by their time in ms, of which a
    traced step has `inside` ms in operators; `source` are lines as they were kept."""
    synth = Synth()
    for line, text in (source or {}).items():
        synth.add("sources", file=TRAIN, line=line, text=text)
    for step in range(40):
        start = 100 * step
        tags = ("traced",) if step == 12 else ()
        synth.step(step, start, start + 100, data_wait=None, forward=80, backward=15, optimizer=5, tags=tags)
        at = float(start)
        for line, time in work.items():
            synth.sample(step, at, time, "forward", TRAIN, line, function=f"part_{line}", text=f"line {line}")
            at += time
        synth.sample(
            step, at, start + 100 - at, "backward", TRAIN, 40, function="main", text="loss.backward()",
            call="torch/_tensor.py:600 backward", leaf="torch/autograd/graph.py:800 run",
        )  # fmt: skip
    synth.host("ProfilerStep#12", "annotation", 1200, 1300)
    synth.host("aten::linear", "operator", 1200, 1200 + inside)
    synth.host("autograd::engine::evaluate_function: X", "operator", 1280, 1295)
    return synth.run()


def test_a_step_that_is_mostly_host_time_names_its_three_largest_lines() -> None:
    """No line of forward alone fills the time between operators, so none can be blamed for it; all together can."""
    (finding,) = found(environment(work={9: 20, 14: 18, 17: 16, 20: 6}, inside=8))
    assert [place.line for place in finding.where] == [9, 14, 17]
    assert finding.gain is not None
    assert finding.gain.high_ns == pytest.approx(54e6, rel=0.02)


def test_a_step_of_tiny_operators_says_that_they_are_tiny() -> None:
    """Samples are in torch's own Python all the time, yet operators fill a tenth of it."""
    synth = Synth()
    for step in range(40):
        start = 100 * step
        tags = ("traced",) if step == 12 else ()
        synth.step(step, start, start + 100, data_wait=None, forward=80, backward=15, optimizer=5, tags=tags)
        synth.sample(
            step, start, 100, "forward", TRAIN, 31, function="main", text="out = model(x)",
            call="torch/nn/modules/module.py:1773 _call_impl",
        )  # fmt: skip
    synth.host("ProfilerStep#12", "annotation", 1200, 1300)
    synth.host("aten::linear", "operator", 1200, 1208)
    synth.host("autograd::engine::evaluate_function: X", "operator", 1280, 1295)
    (finding,) = found(synth.run())
    assert title_text(finding.title) == "Python between small operators takes 72 ms per step (72 %)"
    assert [place.line for place in finding.where] == [31]
    assert finding.gain is None


def test_the_line_of_an_optimizer_that_loops_over_its_parameters_is_another_rule_s() -> None:
    synth = Synth().add("optimizers", name="Adam", module="torch.optim.adam", parameters=2500, elements=100_000)
    for step in range(40):
        start = 100 * step
        tags = ("traced",) if step == 12 else ()
        synth.step(step, start, start + 100, data_wait=None, forward=40, backward=20, optimizer=40, tags=tags)
        for phase, at, weight, line, leaf in (
            ("forward", 0, 40, 31, "torch/nn/modules/module.py:1773 _call_impl"),
            ("backward", 40, 20, 32, "torch/autograd/graph.py:800 run"),
            ("optimizer", 60, 40, 33, "torch/optim/adam.py:500 _single_tensor_adam"),
        ):
            synth.sample(step, start + at, weight, phase, TRAIN, line, function="main", text="a line", call=leaf)
    synth.host("ProfilerStep#12", "annotation", 1200, 1300)
    synth.host("aten::linear", "operator", 1200, 1208)
    synth.host("autograd::engine::evaluate_function: X", "operator", 1240, 1258)
    synth.host("Optimizer.step#Adam.step", "annotation", 1260, 1300)
    synth.host("aten::add_", "operator", 1260, 1270)
    blocks = {block.rule: block.finding for block in diagnose(synth.run()).findings}
    assert [place.line for place in blocks["single-tensor-optimizer"].where] == [33]
    assert [place.line for place in blocks["host-bound"].where] == [31, 32]


def test_an_optimizer_that_calls_the_model_is_not_host_time_because_the_trace_names_its_phases_otherwise() -> None:
    """The probe sees a forward, a backward and an optimizer; in the trace all of it is inside the optimizer's step."""
    synth = Synth()
    for step in range(40):
        start = 100 * step
        tags = ("traced",) if step == 12 else ()
        synth.step(step, start, start + 100, data_wait=None, forward=40, backward=10, optimizer=50, tags=tags)
        synth.sample(
            step, start, 100, "optimizer", TRAIN, 9, function="main", text="optimizer.step(closure)",
            call="torch/optim/lbfgs.py:330 step",
        )  # fmt: skip
    synth.host("ProfilerStep#12", "annotation", 1200, 1300)
    synth.host("Optimizer.step#LBFGS.step", "annotation", 1200, 1300)
    synth.host("aten::linear", "operator", 1201, 1299)
    diagnosis = diagnose(synth.run())
    assert diagnosis.findings == ()
    assert diagnosis.verdict.bound == "device"


SCRIPT = "/home/me/finetune.py"
FIT = f"{SCRIPT}:60 <module>"
LOOP = "transformers/trainer.py:2700 train"


def framework_job(text: str, *, call: str, between: list[str], leaf: str = "json/encoder.py:400 _iterencode") -> Run:
    """Steps of 100 ms in a framework's loop, of which 40 ms are something besides the model."""
    synth = Synth()
    for step in range(40):
        start = 100 * step
        synth.step(step, start, start + 100, data_wait=0, forward=30, backward=25, optimizer=5)
        synth.sample(
            step, start, 40, "other", SCRIPT, 60, function="<module>", text=text, frames=[FIT], call=call,
            between=between, leaf=leaf,
        )  # fmt: skip
        for phase, at, time in (("forward", 40, 30), ("backward", 70, 25), ("optimizer", 95, 5)):
            synth.sample(
                step, start + at, time, phase, SCRIPT, 60, function="<module>", text=text, frames=[FIT], call=call,
                between=[], leaf="torch/nn/modules/linear.py:125 forward",
            )  # fmt: skip
    return synth.run()


@pytest.mark.parametrize(
    ("between", "title", "code"),
    [
        (
            [
                "transformers/trainer.py Trainer._inner_training_loop",
                "transformers/trainer.py Trainer._save_checkpoint",
            ],
            "transformers saves checkpoints in the training loop: 40 ms per step",
            'TrainingArguments(..., save_strategy="steps", save_steps=1000)',
        ),
        (
            ["transformers/trainer.py Trainer._maybe_log_save_evaluate", "transformers/trainer.py Trainer.log"],
            "transformers logs in the training loop: 40 ms per step",
            "TrainingArguments(..., logging_steps=100)",
        ),
        (
            ["transformers/trainer.py Trainer.evaluate", "transformers/trainer.py Trainer.evaluation_loop"],
            "transformers validates in the training loop: 40 ms per step",
            'TrainingArguments(..., eval_strategy="steps", eval_steps=1000)',
        ),
    ],
)
def test_what_a_framework_does_besides_the_model_is_named_with_its_setting(
    between: list[str], title: str, code: str
) -> None:
    (finding,) = found(framework_job("trainer.train()", call=LOOP, between=between))
    assert (title_text(finding.title), finding.advice[0].code) == (title, code)


@pytest.mark.parametrize(
    "text", ["trainer.train()", "learn.fit_one_cycle(3)", "for x, y in train:", "tr.fit(m)  # log"]
)
def test_a_line_that_contains_the_loop_is_never_to_leave_it(text: str) -> None:
    between = ["acme/loop.py Loop.run", "acme/tuning.py Tuner.adjust"]
    (finding,) = found(framework_job(text, call="acme/loop.py:10 fit", between=between))
    told = " ".join(f"{advice.text} {advice.code}" for advice in finding.advice)
    assert "hundredth" not in told
    assert "acme/tuning.py Tuner.adjust" in told


def test_a_loop_of_pure_python_below_the_training_loop_may_leave_it() -> None:
    synth = Synth()
    for step in range(40):
        start = 100 * step
        synth.step(step, start, start + 100, data_wait=0, forward=30, backward=25, optimizer=5)
        synth.sample(
            step, start, 40, "other", SCRIPT, 9, function="report", text="for i in range(60000):",
            frames=[FIT, f"{SCRIPT}:9 report"],
        )  # fmt: skip
        synth.sample(
            step, start + 40, 30, "forward", SCRIPT, 60, function="<module>", text="model(x)", frames=[FIT],
            call="torch/nn/modules/module.py:1773 _call_impl",
        )  # fmt: skip
        synth.sample(
            step, start + 70, 30, "backward", SCRIPT, 61, function="<module>", text="loss.backward()",
            frames=[f"{SCRIPT}:61 <module>"], call="torch/_tensor.py:600 backward",
        )  # fmt: skip
    (finding,) = found(synth.run())
    assert "100th step" in finding.advice[0].text


def test_a_stall_inside_a_framework_is_named_with_what_the_framework_does_there() -> None:
    """Every tenth step a checkpoint of 300 ms, on the one line that all of the training is on."""
    synth, at = Synth(), 0.0
    line = {"function": "<module>", "text": "trainer.fit(model)", "frames": [FIT]}
    for step in range(44):
        saves = 300 if step % 10 == 9 else 0
        synth.step(step, at, at + 50 + saves, forward=20, backward=25, optimizer=5)
        for phase, time in (("forward", 25), ("backward", 25)):
            synth.sample(step, at, time, phase, SCRIPT, 60, call="lightning/pytorch/loops/fit_loop.py:200 run",
                         between=[], leaf="torch/nn/modules/linear.py:125 forward", **line)  # fmt: skip
        for tick in range(saves // 50):
            synth.sample(
                step, at + 50 + 50 * tick, 50, "other", SCRIPT, 60, call="lightning/pytorch/trainer/trainer.py:500 fit",
                between=["lightning/pytorch/callbacks/model_checkpoint.py ModelCheckpoint.on_train_batch_end"],
                leaf="torch/serialization.py:900 save", **line,
            )  # fmt: skip
        at += 50 + saves
    (finding,) = found(synth.run())
    assert title_text(finding.title) == "lightning saves checkpoints in the training loop: 300 ms every 10 steps"
    assert [advice.code for advice in finding.advice] == ["ModelCheckpoint(..., every_n_train_steps=1000)"]
    assert [place.line for place in finding.where] == [60]


def test_a_framework_s_validation_is_not_the_line_that_makes_its_samples() -> None:
    """A tenth of the validation is in the user's data set, which ordinary steps hardly run."""
    synth, at = Synth(), 0.0
    line = {"function": "<module>", "text": "trainer.train()", "frames": [FIT]}
    for step in range(44):
        validates = 300 if step % 10 == 9 else 0
        tags = ("evaluation",) if validates else ()
        synth.step(step, at, at + 50 + validates, forward=20, backward=25, optimizer=5, tags=tags)
        for phase in ("forward", "backward"):
            synth.sample(step, at, 25, phase, SCRIPT, 60, call="transformers/trainer.py:1576 train", between=[],
                         leaf="torch/nn/modules/linear.py:125 forward", **line)  # fmt: skip
        for tick in range(validates // 50):
            synth.sample(
                step, at + 50 + 50 * tick, 45, "other", SCRIPT, 60, call="transformers/trainer.py:1576 train",
                between=["transformers/trainer.py Trainer.evaluate"], leaf="torch/nn/modules/linear.py:125 forward",
                **line,
            )  # fmt: skip
            synth.sample(step, at + 95 + 50 * tick, 5, "other", SCRIPT, 12, function="__getitem__", text="return row",
                         frames=[FIT, f"{SCRIPT}:12 __getitem__"])  # fmt: skip
        at += 50 + validates
    (finding,) = found(synth.run())
    assert title_text(finding.title) == "transformers validates in the training loop: 300 ms every 10 steps"
    assert "transformers/trainer.py Trainer.evaluate" in finding.advice[0].text
    assert [place.line for place in finding.where] == [60]


@pytest.mark.parametrize(
    ("function", "text", "title"),
    [
        ("main", "tally(pixels)  # every step", "tally(pixels) at dqn.py:9 takes 40 ms per step (40 %)"),
        ("brightness", "for value in pixels:", "brightness at dqn.py:9 takes 40 ms per step (40 %)"),
        ("<module>", "for value in pixels:", "dqn.py:9 takes 40 ms per step (40 %)"),
    ],
)
def test_a_title_names_a_call_by_its_code_and_a_block_by_its_function(function: str, text: str, title: str) -> None:
    synth = Synth()
    for step in range(40):
        start = 100 * step
        synth.step(step, start, start + 100, data_wait=None, forward=30, backward=25, optimizer=5)
        for tick in range(4):
            synth.sample(step, start + 10 * tick, 10, "other", TRAIN, 9, function=function, text=text)
        synth.sample(
            step, start + 40, 60, "backward", TRAIN, 40, function="main", text="loss.backward()",
            call="torch/_tensor.py:600 backward", leaf="torch/autograd/graph.py:800 run",
        )  # fmt: skip
    (finding,) = found(synth.run())
    assert title_text(finding.title) == title


def test_the_shares_of_the_lines_add_up_to_the_time_that_is_told() -> None:
    """A traced step has 40 ms between operators; samples of the one function of forward caught 20 of them."""
    (finding,) = found(environment(work={9: 20}, inside=40))
    told = sum(place.share or 0.0 for place in finding.where)
    assert finding.evidence[0].share == pytest.approx(told, abs=0.01)
    assert told == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(
    ("around", "fix"),
    [
        ({8: "        for row in rows:", 9: "            total += row"}, "Replace Python loops"),
        ({8: "        scores = self.score(rows)", 9: "        mixed = weights @ rows"}, "Compile the model"),
    ],
)
def test_loops_are_to_be_replaced_only_where_there_is_one(around: dict[int, str], fix: str) -> None:
    run = environment(work={9: 40}, inside=20, source=around)
    assert found(run)[0].advice[0].text.startswith(fix)


@pytest.mark.parametrize(
    ("call", "seconds", "titles"),
    [
        ("cudaFree", 9, ["The first cudaFree leaves the GPU idle 9 s: it initializes the GPU"]),
        ("cudaFree", 0.5, []),
        ("cudaLaunchKernel", 0.5, ["The first cudaLaunchKernel leaves the GPU idle 500 ms: it loads kernels"]),
    ],
)
def test_a_first_call_that_fills_the_longest_gap_is_told(call: str, seconds: float, titles: list[str]) -> None:
    late = 1000 * seconds + 1
    synth = Synth().kernel(0, 1).host(call, "runtime", 1, late, correlation=1)
    synth.host("cudaLaunchKernel", "runtime", late, late + 1, correlation=2)
    told = found(synth.kernel(late, late + 10, correlation=1 if "Launch" in call else 2).run())
    assert [title_text(finding.title) for finding in told] == titles
