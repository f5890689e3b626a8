"""Run every rule on a run, rank what they find by predicted gain, and say what limits the run."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.bound import bound
from stepscope.core.errors import MissingData
from stepscope.core.finding import Finding, Rule
from stepscope.core.plugins import Group
from stepscope.core.report import FindingBlock, Verdict
from stepscope.core.run import Run

__all__ = ["RULES", "Diagnosis", "Unchecked", "diagnose"]

RULES = Group("rules", Rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """A rule that the run could not answer: what it lacks, and how to record it."""

    rule: str
    missing: str
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Findings, largest gain first; rules that could not look; and what limits the run."""

    findings: tuple[FindingBlock, ...]
    unchecked: tuple[Unchecked, ...]
    verdict: Verdict


def diagnose(run: Run) -> Diagnosis:
    """Return the diagnosis of a run, made the first time only. A rule that lacks data is listed, never an error."""
    return run.once(_diagnose)


def _diagnose(run: Run) -> Diagnosis:
    return _with_rules(run, RULES.load())


def _with_rules(run: Run, rules: Mapping[str, Rule]) -> Diagnosis:
    found: list[FindingBlock] = []
    unchecked: list[Unchecked] = []
    for name, rule in rules.items():
        try:
            found += [FindingBlock(name, finding) for finding in rule.check(run)]
        except MissingData as missing:
            unchecked.append(Unchecked(rule=name, missing=missing.what, how=missing.how))
    ranked = sorted(found, key=lambda block: (-_most(block.finding), block.finding.title, block.finding.ranks))
    return Diagnosis(findings=tuple(_once_per_place(ranked)), unchecked=tuple(unchecked), verdict=_verdict(run))


def _most(finding: Finding) -> int:
    return finding.gain.high_ns if finding.gain else 0


def _once_per_place(ranked: list[FindingBlock]) -> list[FindingBlock]:
    """Of findings by several rules about one line of the same ranks, the one with the largest gain: one cause."""
    claimed: dict[tuple[str, int, int], str] = {}
    kept = []
    for block in ranked:
        place = block.finding.where[0] if block.finding.where else None
        keys = [(place.file, place.line, rank) for rank in block.finding.ranks] if place else []
        if any(claimed.get(key, block.rule) != block.rule for key in keys):
            continue
        claimed.update(dict.fromkeys(keys, block.rule))
        kept.append(block)
    return kept


def _verdict(run: Run) -> Verdict:
    """The limit of the rank with the largest removable share: the others wait for it, or would not gain as much."""
    try:
        table = bound(run)
    except MissingData as missing:
        known = run.optional("meta").filter(pl.col("key") == "no_steps")["value"].drop_nulls()
        return Verdict("unknown", None, None, known[0] if len(known) else str(missing))
    rows = [(_removable(row), row) for row in table.iter_rows(named=True)]
    if not rows:
        return Verdict("unknown", None, None, "no rank has steady steps")
    _, row = max(rows, key=lambda pair: (pair[0], -pair[1]["rank"]))
    share = row["device"] if row["limit"] == "balanced" else row.get(row["limit"])
    return Verdict(row["limit"], share, row["step"], row["why_unknown"] or "")


def _removable(row: dict[str, object]) -> float:
    """Share of the step that limits a rank and could be removed; 0 for a rank that computes or hides its limit."""
    limit = str(row["limit"])
    share = row.get(limit) if limit not in ("device", "balanced", "unknown") else 0.0
    return float(share) if isinstance(share, int | float) else 0.0
