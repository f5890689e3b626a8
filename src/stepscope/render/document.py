"""What a renderer is given: one report as plain data, already ordered, nothing left to compute."""

from collections import Counter
from dataclasses import dataclass

from stepscope.core.report import Block, FindingBlock, Group, Overlap, Table, Verdict
from stepscope.core.schema import Unit

__all__ = ["Device", "Page", "Part", "Report", "RunFacts", "Skipped", "StepTimes", "Unchecked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator of the run; `name` is None where the source leaves it out."""

    rank: int
    device: int
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Step times in ns over the steps that averages are taken from, all ranks together."""

    median: int
    mean: int
    p10: int
    p90: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Which run this is. `command` is None for a trace that does not name it; `steps` counts all steps of a rank."""

    path: str
    command: tuple[str, ...] | None
    framework: str | None
    ranks: tuple[int, ...]
    devices: tuple[Device, ...]
    steps: int
    step_ns: StepTimes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """A rule that this run cannot answer, what it lacks, and how to record it."""

    rule: str
    missing: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something of the input that was left out or repaired, how often, and why."""

    source: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section that was built: blocks, or what it lacks and how to record that."""

    name: str
    title: str
    group: Group = "overview"
    blocks: tuple[Block, ...] = ()
    missing: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything a renderer draws. The first part is the summary; `checked` names the rules that looked.

    `failed` names what ended in an unexpected exception; each says so in its place. `overlaps` are the findings that
    save the same time.
    """

    run: RunFacts
    verdict: Verdict
    findings: tuple[FindingBlock, ...]
    checked: tuple[str, ...]
    unchecked: tuple[Unchecked, ...]
    skipped: tuple[Skipped, ...]
    parts: tuple[Part, ...]
    failed: tuple[str, ...] = ()
    overlaps: tuple[Overlap, ...] = ()

    @property
    def of_steps(self) -> bool:
        """Whether steps are marked, so that gains are of a mean step."""
        return self.run.step_ns is not None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the run."""
        return self.run.ranks

    @property
    def path(self) -> str:
        """The path of the run, for commands."""
        return self.run.path

    def checks(self) -> Table:
        """Every rule: what it found, or what it lacks and how to get that; rules that lack the same share a row."""
        found = Counter(block.rule for block in self.findings)
        looked = ((rule, found[rule], "", "") for rule in self.checked)
        by_need: dict[tuple[str, str], list[str]] = {}
        for one in self.unchecked:
            by_need.setdefault((one.missing, one.how), []).append(one.rule)
        lacking = ((", ".join(rules), None, *need) for need, rules in by_need.items())
        columns: tuple[tuple[str, Unit | None], ...] = (
            ("rule", None), ("findings", "count"), ("needs", None), ("how to get it", None)
        )  # fmt: skip
        return Table("Checks", columns, (*looked, *lacking))

    def lacking(self) -> dict[str, list[str]]:
        """Titles of the sections that could not be built, by how to record what they lack."""
        by_how: dict[str, list[str]] = {}
        for part in self.parts:
            if part.how:
                by_how.setdefault(part.how, []).append(part.title)
        return by_how


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A document that is no report, such as a comparison: its name, its subject and its parts.

    The first block of the first part is the sentence that says it all.
    """

    name: str
    subject: str
    parts: tuple[Part, ...]

    @property
    def of_steps(self) -> bool:
        """A comparison has no findings of its own."""
        return False

    @property
    def ranks(self) -> tuple[int, ...]:
        """None: the document is of several runs."""
        return ()

    @property
    def path(self) -> str:
        """None: commands keep the word that stands for it."""
        return ""
