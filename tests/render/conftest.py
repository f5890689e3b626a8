"""Reports written by hand: an ordinary one, one without anything, and one whose every name is hostile."""

import pytest

from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Title, Value
from stepscope.core.report import Bar, Bars, FindingBlock, Table, Text, Verdict
from stepscope.render.document import Device, Part, Report, RunFacts, Skipped, StepTimes, Unchecked

MS = 1_000_000
HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07",
    "a|b\n## c <script>alert(1)</script> `x` [l](javascript:0) ![i](http://e/p.png) www.e.org",
    "\u202egnp\ud800",
    "x" * 200_000,
)


def finding(number: int) -> FindingBlock:
    return FindingBlock(
        "input-bound",
        Finding(
            title=Title("Problem {} takes {}", (str(number), Value(26 * MS, "ns"))),
            cause="data-reading",
            evidence=(
                Evidence(label="data wait", value=26 * MS, unit="ns", source="steps"),
                Evidence(label="share of the step", value=0.634, unit="ratio", source="steps"),
            ),
            gain=Gain(
                low_ns=12 * MS,
                high_ns=20 * MS,
                step_ns=150 * MS,
                basis="the wait without loading",
                confidence="structural",
            ),
            advice=(
                Advice(text="Load in workers:", code="DataLoader(\n    dataset,\n    num_workers=2,\n)"),
                Advice(text="Make the transform cheaper."),
            ),
            ranks=(0,),
            where=(Place(file="train.py", line=41, symbol="__getitem__", text="image = resize(image)"),),
        ),
    )


def verdict() -> Verdict:
    return Verdict("input", 0.634, 41.2 * MS, rank=0, ranks=(0,), of_ranks=1, steps=117)


@pytest.fixture
def report() -> Report:
    bar = Bars("One step, mean", "ns", (Bar("data wait", 26.0 * MS), Bar("forward", 9.0 * MS), Bar("other", 6.2 * MS)))
    table = Table(
        "Slowest operators",
        (("operator", None), ("calls", "count"), ("host self", "ns")),
        (("aten::addmm", 1240, 3 * MS), ("aten::relu", 12, None)),
    )
    blocks = [finding(number) for number in range(1, 6)]
    summary = (verdict(), bar, Text("Means over {} steps.", (Value(117, "count"),)))
    return Report(
        run=RunFacts(
            path="stepscope-runs/train",
            command=("python", "train.py"),
            framework="torch 2.13.0",
            ranks=(0,),
            devices=(Device(rank=0, device=0, name="NVIDIA H200"),),
            steps=120,
            step_ns=StepTimes(median=41 * MS, mean=150 * MS, p10=40 * MS, p90=44 * MS),
        ),
        verdict=verdict(),
        findings=tuple(blocks),
        checked=("input-bound",),
        unchecked=(Unchecked(rule="blocking-sync", missing="device table", how="record it with `stepscope run`"),),
        skipped=(Skipped(source="trace.json", reason="events without a name", count=3),),
        parts=(
            Part(name="summary", title="Summary", blocks=summary),
            Part(name="findings", title="Findings", blocks=tuple(blocks)),
            Part(name="operators", title="Operators", blocks=(table,)),
            Part(
                name="kernels", title="Kernels", missing="device table", how="record a window: `stepscope run -- CMD`"
            ),
        ),
    )


@pytest.fixture
def empty_report() -> Report:
    unknown = Verdict("unknown", None, None, "no step was recorded")
    facts = RunFacts(path="", command=None, framework=None, ranks=(), devices=(), steps=0, step_ns=None)
    part = Part(name="summary", title="Summary", blocks=(unknown,))
    return Report(run=facts, verdict=unknown, findings=(), checked=(), unchecked=(), skipped=(), parts=(part,))


@pytest.fixture(params=HOSTILE, ids=["escapes", "markup", "reordering", "endless"])
def hostile_report(request: pytest.FixtureRequest) -> Report:
    name: str = request.param
    problem = Finding(
        title=Title("{}", (name,)),
        cause="operator",
        evidence=(Evidence(label=name, value=float("nan"), unit="ns", source=name),),
        gain=Gain(low_ns=0, high_ns=1, step_ns=1, basis=name, confidence="table"),
        advice=(Advice(text=name, code=name),),
        ranks=tuple(range(100)),
        where=(Place(file=name, line=1, symbol=name, text=name),),
    )
    block = FindingBlock(name, problem)
    table = Table(name, ((name, None), ("time", "ns")), ((name, 1), (None, float("inf"))))
    bars = Bars(name, "ns", (Bar(name, 0.0), Bar(name, float("1e15"))))
    words = Text(name.replace("{", "{{").replace("}", "}}") + " {}", (Value(float("nan"), "ratio"),))
    unknown = Verdict("unknown", None, None, name)
    facts = RunFacts(
        path=name, command=(name,), framework=name, ranks=tuple(range(100)), steps=1,
        devices=(Device(rank=0, device=0, name=name),), step_ns=StepTimes(median=1, mean=1, p10=1, p90=1),
    )  # fmt: skip
    return Report(
        run=facts,
        verdict=unknown,
        findings=(block,),
        checked=(name,),
        unchecked=(Unchecked(rule=name, missing=name, how=name),),
        skipped=(Skipped(source=name, reason=name, count=1),),
        parts=(
            Part(name="summary", title="Summary", blocks=(unknown, bars, words)),
            Part(name=name, title=name, blocks=(table, block)),
            Part(name=name, title=name, missing=name, how=name),
        ),
    )
