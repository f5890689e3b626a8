"""Loops and calls of the training loop: which lines count, and which neighbors are left alone."""

import re

import pytest

from stepscope.analyses.host.lib.setting_places import setting_places
from stepscope.analyses.lib.compiler_frames import COMPILER
from stepscope.analyses.lib.loop_headers import loop_header
from stepscope.analyses.operators.lib.weight_uses import weight_uses
from stepscope.core.finding import Finding
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_example
from stepscope.models.looped_model import loop_example
from stepscope.report.diagnose import RULES, diagnose

TRAIN = "/home/me/train.py"


def source(synth: Synth, *lines: str) -> Synth:
    for number, text in enumerate(lines, 1):
        synth.add("sources", file=TRAIN, line=number, text=text)
    return synth


def found(rule: str, synth: Synth) -> list[Finding]:
    return list(RULES.get(rule).check(synth.run()))


@pytest.mark.parametrize(
    ("line", "header"),
    [
        (2, "for p in model.parameters():"),
        (3, "for p in model.parameters():"),
        (5, ""),
        (6, "norms = [p.norm() for p in model.parameters()]"),
        (7, ""),
        (9, "for value in values:  # all of them"),
    ],
    ids=["in the loop", "deeper in it", "behind it", "a comprehension", "no loop", "behind a comment"],
)
def test_the_loop_that_a_line_is_in(line: int, header: str) -> None:
    synth = source(
        Synth(),
        "for p in model.parameters():",
        "    if p.grad is not None:",
        "        p.mul_(2)",
        "",
        "total = 0",
        "norms = [p.norm() for p in model.parameters()]",
        "",
        "for value in values:  # all of them",
        "    total += value",
    )
    assert loop_header(synth.run(), TRAIN, line) == header


def test_a_setting_in_a_comment_is_none() -> None:
    synth = source(Synth(), "# torch.set_num_threads(1)", "x = 1  # set_num_threads(2)", "torch.set_num_threads(4)")
    (place,) = setting_places(synth.run(), r"set_num_threads\(")
    assert (place.line, place.text) == (3, "torch.set_num_threads(4)")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("logger.info(loss)", "logging-each-step"),
        ("figure.savefig(path)", "plotting-in-loop"),
        ("best = copy.deepcopy(model)", "state-copied-each-step"),
        ("words = re.findall(PATTERN, line)", "parsing-in-loop"),
        ("connection.execute(query)", "remote-calls-in-loop"),
        ("right += int(score.item() > 0)", "scalar-reads"),
        ("total = tally(values)", "host-bound"),
    ],
)
def test_the_code_of_a_line_tells_which_rule_speaks(text: str, rule: str) -> None:
    synth = Synth()
    called_example(synth, False, text=text)
    assert [block.rule for block in diagnose(synth.run()).findings] == [rule]


def test_where_a_device_may_work_meanwhile_the_rules_of_the_loop_are_silent() -> None:
    synth = Synth().add("devices", rank=0, device=0, name="NVIDIA A100")
    called_example(synth, False, text="logger.info(loss.item())")
    assert not found("logging-each-step", synth)
    assert not found("scalar-reads", synth)


def test_micro_batches_are_no_loop_over_samples() -> None:
    """Each of 16 backward passes uses each weight once, and accumulates each gradient once."""
    synth = Synth()
    for step in range(4):
        start = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + 100)
        for micro in range(16):
            at = start + 6 * micro
            layer = "autograd::engine::evaluate_function: AddmmBackward0"
            synth.host(layer, "operator", at, at + 1, forward_thread=1, sequence=micro)
            for number in range(2):
                name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
                synth.host(name, "operator", at + 2 + number, at + 3 + number, forward_thread=1)
    (row,) = weight_uses(synth.run())
    assert row.uses == 1


def test_a_cell_is_told_from_a_layer_that_is_used_again() -> None:
    layer, cell = Synth(), Synth()
    loop_example(layer, False)
    loop_example(cell, False, "aten::gru_cell")
    assert [len(found(rule, synth)) for rule in ("sample-loop", "time-loop") for synth in (layer, cell)] == [1, 0, 0, 1]


def test_only_functions_that_are_registered_are_hooks() -> None:
    synth = source(Synth(), "layer.register_forward_hook(look)")
    called_example(synth, False, function="other", text="seen[name] = output.mean()")
    assert not found("slow-hooks", synth)


def test_compiling_is_told_from_running_compiled_code() -> None:
    call = "torch/_dynamo/eval_frame.py:1446 _fn"
    running, loading = Synth(), Synth()
    called_example(running, False, text="model(x)", call=call, leaf="/tmp/torchinductor_me/ca/cab.py:163 call")
    called_example(loading, False, text="model(x)", call=call, leaf="/tmp/torchinductor_me/ca/cab.py:1 <module>")
    assert not found("recompilation", running)
    assert found("recompilation", loading)


def test_a_compiled_module_that_is_called_does_not_compile() -> None:
    call = "torch/_dynamo/eval_frame.py:511 __call__"
    running, waiting = Synth(), Synth()
    called_example(running, False, text="model(x)", call=call, leaf="/tmp/torchinductor_me/ca/cab.py:218 call")
    called_example(waiting, False, text="model(x)", call=call, leaf="threading.py:327 wait")
    assert not found("recompilation", running)
    assert found("recompilation", waiting), "others compile meanwhile"


def test_functions_of_torch_func_are_not_the_compiler() -> None:
    synth = Synth()
    call, leaf = "torch/_functorch/apis.py:449 wrapper", "torch/_functorch/eager_transforms.py:1280 grad_and_value_impl"
    called_example(synth, False, text="gradients = grad(loss)(parameters)", call=call, leaf=leaf)
    assert not found("recompilation", synth)


def parsed_function(loads: int, works: int) -> Finding | None:
    """What is found where samples of 10 ms meet a line that parses, and one that works on what was parsed."""
    synth = Synth()
    lines = [(16, "record = json.loads(line)")] * loads + [(18, "return [weight(word) for word in record]")] * works
    length = 60 + 10 * len(lines)
    for step in range(12):
        start = step * length
        synth.step(step, start, start + length, forward=25, backward=30, optimizer=5)
        synth.sample(step, start + length - 60, 60, "backward", TRAIN, 40, function="main", text="loss.backward()")
        for tick, (line, text) in enumerate(lines):
            synth.sample(step, start + 10 * tick, 10, "other", TRAIN, line, function="features", text=text)
    return next(iter(found("parsing-in-loop", synth)), None)


def test_the_rest_of_a_function_that_parses_goes_with_the_parsing() -> None:
    finding = parsed_function(loads=2, works=3)
    assert finding is not None
    assert finding.evidence[0].value == pytest.approx(50e6)
    assert [place.line for place in finding.where] == [16, 18]


def test_a_function_that_parses_in_passing_is_charged_for_the_parsing_only() -> None:
    finding = parsed_function(loads=1, works=4)
    assert finding is None or finding.evidence[0].value == pytest.approx(10e6)


def compiled_in(steps: tuple[int, ...]) -> list[Finding]:
    synth = Synth()
    for step in range(12):
        start = step * 200
        synth.step(step, start, start + 200, forward=100, backward=90, optimizer=10)
        for tick in range(20):
            compiles = step in steps and tick < 10
            inside = "torch/_dynamo/symbolic_convert.py:1300 step" if compiles else "torch/_tensor.py:600 backward"
            synth.sample(step, start + 10 * tick, 10, "forward", TRAIN, 40, function="main", text="f(x)", call=inside)
    return found("recompilation", synth)


def test_a_step_or_two_that_compile_are_not_told_as_compiling_again() -> None:
    assert [len(compiled_in(steps)) for steps in ((5,), (5, 9), (5, 7, 9))] == [0, 0, 1]


@pytest.mark.parametrize(
    ("frame", "compiles"),
    [
        ("torch/fx/traceback.py:503 format_stack", False),
        ("torch/fx/graph_module.py:800 recompile", True),
        ("torch/fx/passes/tools.py:1 f", True),
    ],
)
def test_stacks_that_anomaly_detection_keeps_are_not_taken_for_the_compiler(frame: str, compiles: bool) -> None:
    assert bool(re.search(COMPILER, frame)) is compiles
