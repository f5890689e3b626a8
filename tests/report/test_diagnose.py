"""The diagnosis: findings by gain, what could not be checked, the verdict, and the rules in the mixes of real jobs."""

from collections.abc import Iterator

import pytest

from stepscope.core.errors import DEVICE_WORK, MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth
from stepscope.render.format import title_text
from stepscope.report.diagnose import _with_rules, diagnose

TRAIN = "/home/me/train.py"
BACKWARD = {
    "call": "torch/_tensor.py:600 backward",
    "leaf": "torch/autograd/graph.py:800 run",
    "text": "loss.backward()",
}


def rule(gain: float, title: str = "A problem", line: int = 0, *, rank: int = 0) -> Rule:
    """A rule that always finds one thing."""

    def check(run: Run) -> Iterator[Finding]:
        yield Finding(
            title=Title(title),
            cause="model",
            evidence=(Evidence(label="time", value=gain * MS, unit="ns", source="steps"),),
            gain=Gain(low_ns=0, high_ns=round(gain * MS), step_ns=100 * MS, basis="test", confidence="table"),
            advice=(Advice(text="Fix it"),),
            ranks=(rank,),
            where=(Place(file=TRAIN, line=line),) if line else (),
        )

    return Rule(check=check, example=lambda synth, fixed: None)


def lacking(what: str, how: str) -> Rule:
    def check(run: Run) -> Iterator[Finding]:
        yield from ()
        raise MissingData(what, how=how)

    return Rule(check=check, example=lambda synth, fixed: None)


def job(*, steps: int = 40, wait: float = 0, other: float = 0, rank: int = 0, backward: float = 50) -> Synth:
    return add_job(Synth(), steps=steps, wait=wait, other=other, rank=rank, backward=backward)


def add_job(
    synth: Synth, *, steps: int = 40, wait: float = 0, other: float = 0, rank: int = 0, backward: float = 50
) -> Synth:
    """Steps of 40 ms and backward, wait and other; samples in backward fill all but wait and other."""
    length = 40 + backward + wait + other
    for step in range(steps):
        start = step * length
        synth.step(step, start, start + length, data_wait=wait, forward=30, backward=backward, optimizer=10, rank=rank)
        synth.sample(step, start, 40 + backward, "backward", TRAIN, 40, rank=rank, function="main", **BACKWARD)
    return synth


def rules_of(run: Run) -> list[str]:
    return [block.rule for block in diagnose(run).findings]


def test_findings_are_ranked_by_gain_and_then_by_title() -> None:
    rules = {"a": rule(1), "b": rule(3, "B"), "c": rule(3, "A"), "d": rule(2)}
    found = _with_rules(job().run(), rules).findings
    assert [block.rule for block in found] == ["c", "b", "d", "a"]


def test_one_line_is_one_cause() -> None:
    rules = {
        "small": rule(1, line=7),
        "large": rule(2, line=7),
        "elsewhere": rule(1, line=8),
        "of-rank-1": rule(1, line=7, rank=1),
    }
    found = _with_rules(job().run(), rules).findings
    assert [block.rule for block in found] == ["large", "elsewhere", "of-rank-1"]


def test_a_rule_that_lacks_data_is_listed_with_how_to_record_it() -> None:
    found = _with_rules(job().run(), {"blind": lacking("eyes", "open them")})
    assert found.findings == ()
    assert found.checked == ()
    assert [(row.rule, row.missing, row.how) for row in found.unchecked] == [("blind", "eyes", "open them")]


def test_a_diagnosis_is_made_once() -> None:
    run = job().run()
    assert diagnose(run) is diagnose(run)


def test_an_empty_run_has_an_unknown_verdict_that_says_what_to_do() -> None:
    found = diagnose(Synth().run())
    assert (found.verdict.bound, found.verdict.share, found.verdict.step_ns) == ("unknown", None, None)
    assert "stepscope run" in found.verdict.why_unknown
    assert found.findings == ()


def test_a_job_that_computes_has_no_finding() -> None:
    found = diagnose(job(wait=1, other=1).run())
    assert found.findings == ()
    assert found.verdict.bound == "device"
    assert found.verdict.step_ns == 92 * MS
    gpu_rules = {"small-kernels", "fp32-matmul", "exposed-communication", "pageable-copy", "blocking-sync"}
    assert not gpu_rules & set(found.checked), "a rule about devices has not looked at a job without one"
    assert {row.missing for row in found.unchecked if row.rule in gpu_rules} == {DEVICE_WORK}


def test_stray_samples_of_python_are_no_finding() -> None:
    """Two samples of one line in thirty steps may be chance; so may a share whose interval reaches down to nothing."""
    synth = job(other=2)
    for step in (10, 20):
        synth.sample(step, step * 92 + 90, 40, "other", TRAIN, 51, function="main", text="total += 1")
    assert rules_of(synth.run()) == []


def test_microseconds_of_a_tiny_model_are_no_finding() -> None:
    """A step of 0.4 ms spends a fifth of it in a line of the loop: 80 µs of calls into torch that nobody can remove."""
    synth = Synth()
    for step in range(1000):
        start = step * 0.4
        synth.step(step, start, start + 0.4, forward=0.12, backward=0.15, optimizer=0.05)
        if step % 20 == 0:
            synth.sample(
                step, start, 1.6, "other", TRAIN, 51, function="main", text="accuracy += (p == y).sum().item()"
            )
            synth.sample(step, start, 6.4, "backward", TRAIN, 40, function="main", **BACKWARD)
    assert rules_of(synth.run()) == []


def test_causes_beside_each_other_are_all_found_and_share_no_time() -> None:
    synth = job(wait=40, other=15)
    for step in range(40):
        start = step * 145
        synth.sample(step, start, 40, "data_wait", "/home/me/data.py", 12, function="__getitem__", text="decode(x)")
        synth.sample(step, start + 130, 15, "other", TRAIN, 51, function="main", text="tally(scores)")
    found = diagnose(synth.run())
    assert [block.rule for block in found.findings] == ["input-bound", "host-bound"]
    assert [block.finding.where[0].line for block in found.findings] == [12, 51]
    assert sum(block.finding.gain.low_ns for block in found.findings if block.finding.gain) < 55 * MS
    assert found.verdict.bound == "input"
    assert found.verdict.share == pytest.approx(40 / 145)


def test_the_loop_over_the_loader_is_not_the_place_of_a_wait() -> None:
    synth = job(wait=30)
    for step in range(40):
        synth.sample(
            step, step * 120, 30, "data_wait", TRAIN, 30, function="main", text="for x, y in loader:",
            call="torch/utils/data/dataloader.py:700 __next__",
        )  # fmt: skip
    synth.add(
        "loaders", loader=0, train=True, dataset="Pictures", dataset_file="/home/me/data.py", dataset_line=5,
        num_workers=2, collate="default_collate", collate_file="/x/site-packages/torch/collate.py", collate_line=3,
    )  # fmt: skip
    (block,) = diagnose(synth.run()).findings
    assert [(place.file, place.line, place.symbol) for place in block.finding.where] == [
        ("/home/me/data.py", 5, "Pictures")
    ]


@pytest.mark.parametrize(
    ("workers", "wait", "effective", "code"),
    [
        (0, 30, 8, "DataLoader(..., num_workers=8, persistent_workers=True)"),
        (2, 30, 8, "DataLoader(..., num_workers=8, persistent_workers=True)"),
        (0, 30, 64, "DataLoader(..., num_workers=16, persistent_workers=True)"),
        (8, 30, 8, ""),
        (0, 30, 1.5, "DataLoader(..., num_workers=1, persistent_workers=True)"),
    ],
)
def test_advice_about_workers_follows_the_cores(workers: int, wait: float, effective: float, code: str) -> None:
    synth = job(wait=wait).add("loaders", loader=0, train=True, dataset="Pictures", num_workers=workers)
    synth.add("meta", source="run.json", key="cores", value=f'{{"affinity": 64, "effective": {effective}}}')
    (block,) = diagnose(synth.run()).findings
    assert block.finding.advice[0].code == code


@pytest.mark.parametrize(("workers", "tried"), [(None, 2), (0, 2), (2, 4), (12, 16)])
def test_without_the_number_of_cores_few_workers_are_tried_first(workers: int | None, tried: int) -> None:
    synth = job(wait=30)
    if workers is not None:
        synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=workers)
    (block,) = diagnose(synth.run()).findings
    advice = block.finding.advice[0]
    assert advice.code == f"DataLoader(..., num_workers={tried}, persistent_workers=True)"
    assert f"Set num_workers={tried}, persistent_workers=True" in advice.text
    assert advice.text.endswith("Then try more, up to the number of cores")


@pytest.mark.parametrize(
    ("system", "codes"),
    [
        (0.3, ["DataLoader(..., num_workers=4, persistent_workers=True)", "", "stepscope tune loader -- COMMAND"]),
        (1.0, ["", "stepscope tune loader -- COMMAND"]),  # other people's work takes the cores that this job leaves
    ],
)
def test_workers_that_wait_for_files_leave_cores_idle(system: float, codes: list[str]) -> None:
    """As many workers as cores, and still the cores are idle: more workers help where more cores would not."""
    synth = job(wait=30).add("loaders", loader=0, train=True, dataset="Remote", num_workers=2)
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    middle = 20 * 70 * MS
    synth.add("system", time=0, what="job CPU", value=2.0, unit="cores")  # before the first steady step
    synth.add("system", time=middle, what="job CPU", value=0.5, unit="cores")
    synth.add("system", time=middle, what="system CPU", value=system, unit="ratio")
    (block,) = diagnose(synth.run()).findings
    assert [advice.code for advice in block.finding.advice] == codes


def test_cheaper_loading_also_gives_back_the_cores_that_workers_take_from_training() -> None:
    synth = job(wait=30).add("loaders", loader=0, train=True, dataset="Pictures", num_workers=2)
    synth.add("meta", source="run.json", key="cores", value='{"effective": 2}')
    for what, value in (("job CPU", 2.0), ("other CPU", 0.0), ("core wait", 0.1)):
        synth.add("system", time=20 * 70 * MS, what=what, value=value, unit="cores")
    diagnosis = diagnose(synth.run())
    (block,), verdict = diagnosis.findings, diagnosis.verdict
    step = block.finding.evidence[0].value / (block.finding.evidence[0].share or 0)
    assert block.finding.gain is not None
    assert block.finding.gain.high_ns == pytest.approx(30 * MS + 2 * 0.1 * step, abs=2)
    assert verdict.bound == "input"
    assert verdict.core_wait == pytest.approx(0.1)
    assert verdict.share == pytest.approx(30 * MS / step + 0.1)


def test_a_fetch_too_short_for_a_worker_gets_other_advice() -> None:
    synth = Synth().add("loaders", loader=0, train=True, dataset="TensorDataset", num_workers=0)
    for step in range(40):
        synth.step(step, 2 * step, 2 * step + 2, data_wait=1, forward=0.5, backward=0.4, optimizer=0.1)
    (block,) = diagnose(synth.run()).findings
    assert "BatchSampler" in block.finding.advice[0].code


def test_workers_that_start_anew_each_epoch() -> None:
    synth = Synth().add("loaders", loader=0, train=True, dataset="A", num_workers=2, persistent_workers=False)
    clock = 0.0
    for step in range(60):
        first = step % 10 == 0
        wait = 200 if first else 1
        synth.step(
            step, clock, clock + 50 + wait, data_wait=wait, forward=20, backward=25, optimizer=5,
            tags=("epoch-start",) if first else (),
        )  # fmt: skip
        clock += 50 + wait
    (block,) = diagnose(synth.run()).findings
    assert block.finding.advice[0].code == "DataLoader(..., num_workers=2, persistent_workers=True)"


def test_of_several_ranks_the_one_that_waits_for_data_is_the_culprit() -> None:
    """Rank 1 waits 60 ms for data; rank 0 has its batch at once and waits for rank 1 in backward."""
    synth = add_job(job(wait=5, backward=90), wait=60, backward=35, rank=1)
    found = diagnose(synth.run())
    (block,) = found.findings
    assert (block.rule, block.finding.ranks) == ("input-bound", (1,))
    assert found.verdict.bound == "input"
    assert found.verdict.share == pytest.approx(60 / 135)
    labels = {evidence.label: evidence.value for evidence in block.finding.evidence}
    assert labels["backward time"] < labels["waiting ranks' backward time"]


def test_ranks_that_wait_alike_are_one_finding() -> None:
    synth = add_job(job(wait=30), wait=32, rank=1)
    found = diagnose(synth.run())
    (block,) = found.findings
    assert block.finding.ranks == (0, 1)
    assert (found.verdict.rank, found.verdict.ranks, found.verdict.of_ranks) == (1, (0, 1), 2)


def test_a_verdict_says_for_which_ranks_it_holds_and_on_how_many_steps_it_rests() -> None:
    synth = add_job(job(wait=5, backward=90, steps=30), wait=60, backward=35, rank=3, steps=20)
    verdict = diagnose(synth.run()).verdict
    assert (verdict.bound, verdict.rank, verdict.ranks, verdict.of_ranks) == ("input", 3, (3,), 2)
    assert verdict.steps == 17  # three of warm-up


def test_a_rank_that_hardly_has_the_limit_of_the_worst_one_is_not_named_with_it() -> None:
    verdict = diagnose(add_job(job(wait=15, backward=80), wait=60, backward=35, rank=1).run()).verdict
    assert (verdict.rank, verdict.ranks, verdict.of_ranks) == (1, (1,), 2)


def test_a_verdict_knows_what_computes() -> None:
    assert diagnose(job().run()).verdict.on_cpu
    assert not diagnose(job().add("devices", device=0, name="NVIDIA H200").run()).verdict.on_cpu


def test_a_trace_without_steps_has_a_verdict_that_rests_on_none() -> None:
    synth = Synth().kernel(0, 40).kernel(60, 100)
    verdict = diagnose(synth.run()).verdict
    assert (verdict.step_ns, verdict.steps) == (100 * MS, 0)


def test_a_validation_is_not_blamed_on_the_loader_or_on_a_line_of_the_model() -> None:
    synth, clock = Synth(), 0.0
    for step in range(60):
        validates = step % 20 == 19
        end = clock + 50 + (300 if validates else 0)
        tags = ("evaluation",) if validates else ()
        synth.step(step, clock, end, forward=20, backward=25, optimizer=5, tags=tags)
        synth.sample(step, clock, 50, "backward", TRAIN, 40, function="main", **BACKWARD)
        for tick in range(6 if validates else 0):
            synth.sample(
                step, clock + 50 + 50 * tick, 50, "other", TRAIN, 20, function="evaluate", text="out = model(x)",
                call="torch/nn/modules/module.py:1773 _call_impl", frames=[f"{TRAIN}:45 main", f"{TRAIN}:20 evaluate"],
            )  # fmt: skip
        clock = end
    (block,) = diagnose(synth.run()).findings
    assert block.rule == "periodic-stall"
    assert "Validation" in title_text(block.finding.title)
    assert block.finding.where[0].line == 45


def slow_forward(expression: str | None, *, gap: float) -> Run:
    """Steps of 100 ms: a line of forward is sampled for 40; a traced step has a gap of `gap` ms between operators."""
    synth = Synth()
    for step in range(40):
        start = 100 * step
        synth.step(
            step, start, start + 100, forward=60, backward=35, optimizer=5, tags=("traced",) if step == 12 else ()
        )
        synth.sample(step, start, 40, "forward", TRAIN, 21, function="forward", expression=expression, text="x = g(x)")
        synth.sample(step, start + 40, 60, "backward", TRAIN, 40, function="main", **BACKWARD)
    synth.host("ProfilerStep#12", "annotation", 1200, 1300)
    synth.host("aten::conv2d", "operator", 1200, 1260 - gap)
    synth.host("autograd::engine::evaluate_function: X", "operator", 1260, 1295)
    return synth.run()


@pytest.mark.parametrize(
    ("expression", "gap", "rules"),
    [
        ("x @ self.weight", 0, []),
        ("x @ self.weight", 40, ["host-bound"]),
        (None, 0, []),
        (None, 40, ["host-bound"]),
        ("torch.matmul(x, w)", 0, []),
        ("time.sleep(0.04)", 40, ["host-bound"]),
    ],
)
def test_a_line_inside_forward_is_host_work_if_it_cannot_be_an_operator(
    expression: str | None, gap: float, rules: list[str]
) -> None:
    run = slow_forward(expression, gap=gap)
    assert rules_of(run) == rules
    assert [block.finding.where[0].line for block in diagnose(run).findings] == [21] * len(rules)


@pytest.mark.parametrize(
    "change",
    [
        {"fused": True},
        {"foreach": True},
        {"parameters": 20, "elements": 2_000},
        {"elements": 2500 * 100_000},
        {"module": "mine.optimizers"},
    ],
)
def test_an_optimizer_that_is_fused_few_or_large_is_left_alone(change: dict[str, object]) -> None:
    facts = {"name": "Adam", "module": "torch.optim.adam", "parameters": 2500, "elements": 100_000}
    assert rules_of(many_parameters(facts).run()) == ["single-tensor-optimizer"]
    assert rules_of(many_parameters({**facts, **change}).run()) == []


def many_parameters(facts: dict[str, object]) -> Synth:
    synth = Synth().add("optimizers", **facts)
    for step in range(20):
        synth.step(step, 100 * step, 100 * step + 100, forward=20, backward=30, optimizer=50)
    return synth


def test_a_line_takes_no_longer_than_the_clock_says_its_phase_does() -> None:
    """Samples of a line that fills phase other stand for more time than the phase has: the clock is right."""
    synth = Synth()
    for step in range(40):
        synth.step(step, 100 * step, 100 * step + 100, data_wait=0, forward=30, backward=40, optimizer=10)
        synth.sample(step, 100 * step, 50, "other", TRAIN, 51, function="main", text="tally(scores)")
        synth.sample(step, 100 * step + 50, 50, "backward", TRAIN, 40, function="main", **BACKWARD)
    (block,) = diagnose(synth.run()).findings
    assert block.finding.gain is not None
    assert (block.finding.evidence[0].value, block.finding.gain.high_ns) == (20 * MS, 24 * MS)
