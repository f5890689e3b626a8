"""Run every rule on a run, rank what they find by predicted gain, and say what limits the run."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from stepscope.analyses.bound.bound import bound
from stepscope.analyses.bound.lib.bound_shares import record_without
from stepscope.analyses.bound.lib.thresholds import LIMIT
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.host.core_waits import core_waits
from stepscope.analyses.input_pipeline.lib.loader_facts import MAKES_LOADER
from stepscope.analyses.lib.cut_traces import AGAIN, NO_WHOLE_STEP, nothing_whole
from stepscope.analyses.lib.graph_capture import captures
from stepscope.analyses.lib.job_command import job_command
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.steps.steady_steps import marks_steps, steady_steps
from stepscope.core.boundary import Failure, attempt
from stepscope.core.errors import MissingData
from stepscope.core.finding import Finding, Rule
from stepscope.core.plugins import PluginGroup
from stepscope.core.report import FindingBlock, Overlap, Verdict
from stepscope.core.run import Run
from stepscope.models.limiting_rank import awaited_rank, limiting_row, removable
from stepscope.render.document import Unchecked
from stepscope.report.memory_only import holds_memory_only
from stepscope.report.overlaps import held, overlaps, pool_of
from stepscope.report.places import with_source
from stepscope.report.trials import with_trial

__all__ = ["RULES", "Diagnosis", "diagnose"]

RULES = PluginGroup("rules", Rule)

REASON = 0.25  # of the gain of the general finding: what saves less than that is not the reason for it
REPLACED = 0.7  # of the gain of another way to save the same time: a cause that saves much less stands beside it
"""Where the other way is a setting and the cause a line, the line stands first from here on."""
FEW_GAPS = 3  # without device work: so many can be looked at one by one
MOST = 0.8  # of the gaps: what is left may be what recording adds between thousands of calls
SEEN = 0.5  # of the idle time must be in gaps that are known, before they can explain it
WORTH_TELLING = 0.1  # of the idle time
CORES_LACK = 0.1  # of the step spent waiting for a core: less is what any busy machine has
ALIKE = 0.5  # of the worst rank's share: one with less, such as a rank that waits for it, is not limited by the same

_OF_STEP = re.compile(r" (per|of) step$")  # behind a label
_CAPTURED = (
    "kernels are captured into a device graph here, they do not run: trace a replay of the graph to see their times"
)
_MEMORY_ONLY = f"this file holds memory and no times; for those, {RECORD_TRACE}"
_SEE_GAPS = "see what the host did in the longest gaps: `stepscope show idle_gaps PATH`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Findings, largest gain first; names of the rules that looked; those that could not; and what limits the run.

    `failed` are the rules among those that could not, and the verdict, that ended in an unexpected exception.
    `overlaps` are the findings that save the same time.
    """

    findings: tuple[FindingBlock, ...]
    checked: tuple[str, ...]
    unchecked: tuple[Unchecked, ...]
    verdict: Verdict
    failed: tuple[str, ...] = ()
    overlaps: tuple[Overlap, ...] = ()


def diagnose(run: Run) -> Diagnosis:
    """Return the diagnosis of a run, made the first time only. A rule that lacks data is listed, never an error."""
    return run.once(_diagnose)


def _diagnose(run: Run) -> Diagnosis:
    return _with_rules(run, RULES.load())


def _with_rules(run: Run, rules: Mapping[str, Rule]) -> Diagnosis:
    found: list[FindingBlock] = []
    checked: list[str] = []
    unchecked: list[Unchecked] = []
    failed: list[str] = []
    for name, rule in rules.items():
        match _checked(run, rule, name):
            case Failure(view, what, how):
                unchecked.append(Unchecked(rule=name, missing=what, how=how))
                failed.append(view)
            case Unchecked() as lacking:
                unchecked.append(lacking)
            case findings:
                found += findings
                checked.append(name)
    if not marks_steps(run):
        found = [FindingBlock(block.rule, _of_recording(block.finding)) for block in found]
    command = job_command(run)
    found = [replace(block, finding=with_trial(block.finding, command)) for block in _without_explained(found, rules)]
    ranked = _ranked(found)
    verdict = attempt("verdict", lambda: _verdict(run))
    if isinstance(verdict, Failure):
        failed.append(verdict.view)
        verdict = Verdict("unknown", None, None, verdict.what, next_step=verdict.how)
    kept = tuple(replace(block, finding=with_source(run, block.finding)) for block in _once_per_place(ranked))
    pools = attempt("overlaps", lambda: held(run))
    return Diagnosis(
        findings=kept,
        checked=tuple(checked),
        unchecked=tuple(unchecked),
        verdict=verdict,
        failed=tuple(failed),
        overlaps=overlaps([block.finding for block in kept], {} if isinstance(pools, Failure) else pools),
    )


def _checked(run: Run, rule: Rule, name: str) -> list[FindingBlock] | Unchecked | Failure:
    """What a rule finds, or why it could not look."""
    if nothing_whole(run):
        return Unchecked(rule=name, missing=NO_WHOLE_STEP, how=AGAIN)
    try:
        return attempt(f"rule {name}", lambda: [FindingBlock(name, finding) for finding in rule.check(run)])
    except MissingData as missing:
        return Unchecked(rule=name, missing=missing.what, how=missing.how)


def _of_recording(finding: Finding) -> Finding:
    """The finding of a run in which no steps are marked: its figures are of all that was recorded, not of a step."""
    evidence = tuple(replace(row, label=_OF_STEP.sub("", row.label)) for row in finding.evidence)
    title = replace(finding.title, words=finding.title.words.replace(" per step", " in total"))
    return replace(finding, title=title, evidence=evidence)


def _most(finding: Finding) -> int:
    return finding.gain.high_ns if finding.gain else 0


def _expected(finding: Finding) -> float:
    """The middle of its gain: the upper end alone would put first what is least sure.

    Code whose replacement is unknown counts as made twice as fast.
    """
    if finding.gain and finding.gain.curve:
        return finding.gain.curve[0][1]
    return (finding.gain.low_ns + finding.gain.high_ns) / 2 if finding.gain else 0.0


def _ranked(found: list[FindingBlock]) -> list[FindingBlock]:
    """The largest expected gain first, but a setting behind a line that saves about as much of the same time.

    A setting moves work to where it disturbs less, and what it saves ends with the cores; the line is the work itself.
    Where nobody knows by what to replace the line, the setting stands before it: it is one word, and sure.
    """
    placed = [block.finding for block in found if block.finding.where]

    def order(block: FindingBlock) -> tuple[float, int, str, tuple[int, ...]]:
        finding, kind = block.finding, _kind(block.finding)
        alike = [_expected(other) for other in placed if kind == _kind(other) + 1 and _saves_as_much(other, finding)]
        return -min([_expected(finding), *alike]), kind, finding.title.words, finding.ranks

    return sorted(found, key=order)


def _kind(finding: Finding) -> int:
    """0: a line, and what to write instead; 1: a setting; 2: a line whose replacement is unknown."""
    if _is_setting(finding):
        return 1
    return 2 if finding.gain and finding.gain.curve else 0


def _is_setting(finding: Finding) -> bool:
    """Whether it is about the arguments of a loader."""
    return bool(finding.where) and finding.where[0].symbol == MAKES_LOADER


def _saves_as_much(one: Finding, other: Finding) -> bool:
    same = pool_of(one) is not None and pool_of(one) == pool_of(other) and set(other.ranks) <= set(one.ranks)
    return same and _expected(one) >= REPLACED * _expected(other)


def _without_explained(found: list[FindingBlock], rules: Mapping[str, Rule]) -> list[FindingBlock]:
    """The findings but those of which others tell the reason, for all of their ranks."""
    return [block for block in found if not _is_explained(block, found, rules)]


def _is_explained(general: FindingBlock, found: list[FindingBlock], rules: Mapping[str, Rule]) -> bool:
    reasons = [block.finding for block in found if _stands_for(block, general, rules)]
    told = {rank for finding in reasons for rank in finding.ranks}
    return bool(reasons) and told.issuperset(general.finding.ranks)


def _stands_for(reason: FindingBlock, other: FindingBlock, rules: Mapping[str, Rule]) -> bool:
    """Whether a finding is the reason for another, or another way to save nearly as much."""
    if rules[reason.rule].explains == other.rule:
        enough = _most(reason.finding) >= REASON * _most(other.finding)
        return enough and (not _is_about_lines(other.finding) or _same_function(reason.finding, other.finding))
    nearly = _expected(reason.finding) >= REPLACED * _expected(other.finding)
    return nearly and other.rule in reason.finding.replaces


def _is_about_lines(finding: Finding) -> bool:
    """Whether it holds for its own lines alone, and not for all that limits the host."""
    return bool(finding.where) and finding.gain is not None and finding.gain.pool == "host"


def _same_function(one: Finding, other: Finding) -> bool:
    named = {(place.file, place.symbol) for place in one.where}
    return any((place.file, place.symbol) in named for place in other.where)


def _once_per_place(ranked: list[FindingBlock]) -> list[FindingBlock]:
    """Of findings by several rules about one line of the same ranks, the one with the largest gain: one cause.

    One without a gain counts no time twice. The line that makes a loader stands for many causes: its settings.
    """
    claimed: dict[tuple[str, int, int], str] = {}
    kept = []
    for block in ranked:
        if block.finding.gain is None:
            kept.append(block)
            continue
        place = block.finding.where[0] if block.finding.where else None
        if _is_setting(block.finding):
            kept.append(block)
            continue
        keys = [(place.file, place.line, rank) for rank in block.finding.ranks] if place else []
        if any(claimed.get(key, block.rule) != block.rule for key in keys):
            continue
        claimed.update(dict.fromkeys(keys, block.rule))
        kept.append(block)
    return kept


def _verdict(run: Run) -> Verdict:
    """The limit of the rank with the largest removable share: the others wait for it, or would not gain as much."""
    if nothing_whole(run):
        return Verdict("unknown", None, None, "the trace is cut off before the end of its first step", next_step=AGAIN)
    if captures(run):
        return Verdict("unknown", None, None, _CAPTURED)
    if holds_memory_only(run):
        return Verdict("unknown", None, None, _MEMORY_ONLY, next_step=RECORD_TRACE)
    try:
        table = bound(run)
    except MissingData as missing:
        known = run.optional("meta").filter(pl.col("key") == "no_steps")["value"].drop_nulls()
        how = "" if len(known) else missing.how
        return Verdict("unknown", None, None, known[0] if len(known) else str(missing), next_step=how)
    rows, row = table.to_dicts(), limiting_row(run)
    if row is None:
        return Verdict("unknown", None, None, "no rank has steady steps")
    opened, world_size = _ranks(run)
    steps = _steps(run, row["rank"])
    idle = row["unexplained"] + (row["host"] if row["limit"] == "host" else 0.0)
    gaps = _gaps(run, row["rank"], idle * row["step"]) if idle >= LIMIT and not steps else ()
    share = row["device"] if row["limit"] == "balanced" else row.get(row["limit"])
    slowed_by = row["slowed_by"] if row["likely"] else ()
    return Verdict(
        row["limit"],
        share,
        row["step"],
        row["why_unknown"] or "",
        rank=row["rank"],
        ranks=tuple(sorted(other["rank"] for other in rows if _alike(other, row))),
        of_ranks=len(rows),
        steps=steps,
        on_cpu=not has_gpu(run),
        opened=opened,
        world_size=world_size,
        share_unrecorded=_unrecorded(row, share),
        likely=row["likely"],
        gaps=gaps,
        unexplained=row["unexplained"],
        late=row["limit"] == "device" and row["rank"] == awaited_rank(run),
        core_wait=row["cpu_contention"] if row["limit"] == "input" else _core_wait(run, row),
        next_step=_SEE_GAPS if gaps else record_without(slowed_by) if slowed_by else row["how"] or "",
    )


def _unrecorded(row: dict[str, Any], share: float | None) -> float | None:
    """The share without what the profiler cost, which is in the host's."""
    less: float = row["recording"]
    if share is None or not 0 < less < 1:
        return None
    return (share - (less if row["limit"] == "host" else 0.0)) / (1 - less)


def _core_wait(run: Run, row: dict[str, Any]) -> float:
    """The share of a step in which operators on the CPU wait for a core."""
    if row["limit"] != "device" or has_gpu(run):
        return 0.0
    try:
        waited = core_waits(run).filter(pl.col("rank") == row["rank"]).select(pl.col("waited") / pl.col("step"))
    except MissingData:
        return 0.0
    share = min(float(waited.item()), row["device"]) if len(waited) else 0.0
    return share if share >= CORES_LACK else 0.0


def _ranks(run: Run) -> tuple[int, int]:
    """The ranks that were opened, and those of the job; 0 where the run does not tell."""
    opened, world_size = run.optional("processes").select(pl.col("rank").n_unique(), pl.col("world_size").max()).row(0)
    return opened, world_size or 0


def _gaps(run: Run, rank: int, idle: float) -> tuple[tuple[float, str], ...]:
    """The longest gaps of a rank's device, where so few are most of its idle time: recording is never that slow.

    `idle` is the idle time of a step, in ns.
    """
    try:
        gaps = idle_gaps(run).filter(pl.col("rank") == rank)
    except MissingData:
        return ()
    steps = gaps["step"].drop_nulls().n_unique()
    few = min(FEW_GAPS, steps // 2) if steps > 1 else FEW_GAPS  # one in each step comes again and again
    longest = gaps.sort("duration", descending=True).head(few)
    whole = int(gaps["duration"].sum())
    if int(longest["duration"].sum()) < MOST * whole or whole < SEEN * idle * max(steps, 1):
        return ()
    needed = longest.filter(pl.col("duration") >= WORTH_TELLING * whole)
    return tuple((float(time), doing or "") for time, doing in needed.select("duration", "activity").iter_rows())


def _alike(other: dict[str, object], worst: dict[str, object]) -> bool:
    """True if a rank has the limit of the worst one, to a like extent."""
    return other["limit"] == worst["limit"] and removable(other) >= ALIKE * removable(worst)


def _steps(run: Run, rank: int) -> int:
    """The number of steady steps of a rank; 0 where the source marks no steps."""
    try:
        return steady_steps(run).filter(pl.col("rank") == rank).height
    except MissingData:
        return 0
