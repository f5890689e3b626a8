"""What the first screen says beside the verdict: which kind of run this is, where its time goes, what shows more.

A training job with findings needs none of it. A trace of inference, of the capture of device graphs, or one without
steps says so, and a run without findings shows its five largest kernels, operators or lines.
"""

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal

import polars as pl

from stepscope.analyses.device.kernels import kernels
from stepscope.analyses.host.lines import lines
from stepscope.analyses.lib.cut_traces import nothing_whole
from stepscope.analyses.lib.graph_capture import captures
from stepscope.analyses.lib.job_command import job_command
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.analyses.lib.training_or_inference import inferring_ranks
from stepscope.analyses.operators.operators import operators
from stepscope.analyses.operators.speed_of_light import speed_of_light
from stepscope.analyses.steps.steady_steps import marks_steps
from stepscope.core.errors import DEVICE_WORK, MissingData
from stepscope.core.plural import plural
from stepscope.core.report import Block, Table, Text, Value, Verdict
from stepscope.core.run import Analysis, Run, chain
from stepscope.report.diagnose import Diagnosis, diagnose
from stepscope.report.memory_only import holds_memory_only, what_fills_the_peak
from stepscope.report.speed_limit import speed_limit
from stepscope.report.traced_steps import traced_steps

__all__ = ["Kind", "checks_done", "kind", "where_the_time_goes"]

Kind = Literal["training", "no-steps", "inference", "graph-capture", "memory", "nothing-found"]

LARGEST = 5  # kernels, operators or lines: what a person compares at a glance
FEW_FINDINGS = 1  # beside more of them there is no room, and no need, for what is large but no problem

_RECORD = re.compile(r"run it (?:on Linux )?with `stepscope run -- COMMAND`")
_SAYS = {
    "no-steps": "No steps are marked in this trace: figures are of all recorded time.",
    "inference": "Inference: this trace has no backward and no optimizer.",
}


def kind(run: Run) -> Kind:
    """Which first screen a run has."""
    if captures(run):
        return "graph-capture"
    if holds_memory_only(run):
        return "memory"
    ranks = run.per_rank(_traced_ranks, chain)
    if ranks and set(ranks) <= set(inferring_ranks(run)):
        return "inference"
    if not marks_steps(run):
        return "no-steps"
    return "training" if diagnose(run).findings else "nothing-found"


def where_the_time_goes(run: Run) -> list[Block]:
    """What kind of run it is, unless it trains, and what takes the most time if few findings say so."""
    found = kind(run)
    if found == "memory":
        return what_fills_the_peak(run)
    told = (
        found in _SAYS
        and not nothing_whole(run)
        and (found != "no-steps" or _has_untold_figures(diagnose(run).verdict))
    )
    says: list[Block] = [Text(_SAYS[found])] if told else []
    findings, bound = diagnose(run).findings, diagnose(run).verdict.bound
    few = not findings or (len(findings) <= FEW_FINDINGS and bound != "host")  # kernels do not say why a device idles
    largest = _largest(run, found) if few and found != "training" else []
    return [*says, *largest, *_limit(run, found)]


def _limit(run: Run, found: Kind) -> list[Block]:
    """How near to its peaks the device is, where it limits or nothing was found: captured kernels do not run."""
    diagnosis = diagnose(run)
    told = diagnosis.verdict.bound == "device" or not diagnosis.findings
    return speed_limit(run, diagnosis.verdict) if told and found != "graph-capture" else []


def _has_untold_figures(verdict: Verdict) -> bool:
    """Whether a verdict is about all recorded time without saying so, as one that names a limit does."""
    return verdict.bound == "unknown" and verdict.step_ns is not None


def checks_done(run: Run, path: str) -> list[Block]:
    """If nothing was found: how many rules have looked, how many could not, and what to record so that more look."""
    diagnosis = diagnose(run)
    if diagnosis.findings or not diagnosis.checked:
        return []
    following = _to_see_limits(run, diagnosis) or _to_check_more(run, diagnosis)
    if not marks_steps(run):  # the foot of the screen counts the checks
        return [] if diagnosis.verdict.bound == "unknown" else following
    if diagnosis.verdict.bound == "unknown":  # who cannot tell what limits a run has not seen that nothing is wrong
        return following
    text, values = _found_nothing(diagnosis, path)
    return [Text(text, tuple(values)), *following]


def _to_see_limits(run: Run, diagnosis: Diagnosis) -> list[Block]:
    """Where a device computes all the time and nobody knows how fast it could be: what to record to know."""
    if diagnosis.verdict.bound != "device" or diagnosis.verdict.on_cpu or diagnosis.verdict.next_step:
        return []
    try:
        speed_of_light(run)
    except MissingData as missing:
        return [Text(f"Next: {_literal(missing.how)}. It tells how far each operator is from the device's limit.")]
    return []


def _to_check_more(run: Run, diagnosis: Diagnosis) -> list[Block]:
    how = _next(run, diagnosis)
    if not how:
        return []
    return [
        Text(f"Next: {how}." if diagnosis.verdict.next_step else f"Next: {how}, for the checks that need more data.")
    ]


def _found_nothing(diagnosis: Diagnosis, path: str) -> tuple[str, list[Value]]:
    checked = len(diagnosis.checked)
    text, values = f"No problem found ({{}} {plural(checked, 'check')}).", [Value(checked, "count")]
    if diagnosis.verdict.bound in ("input", "host", "communication", "memory"):  # such a limit is a problem
        text = f"No cause found ({{}} {plural(checked, 'check')})."
    lacking = _lacking(diagnosis)
    about_devices = len(diagnosis.unchecked) - lacking
    if lacking:
        text += f" {{}} {plural(lacking, 'needs', 'need')} more data: `stepscope report {path} --checks`."
        values.append(Value(lacking, "count"))
    if about_devices:
        text += f" {{}} {plural(about_devices, 'check is', 'checks are')} for accelerators."
        values.append(Value(about_devices, "count"))
    return text, values


def _lacking(diagnosis: Diagnosis) -> int:
    """Rules that would look if more was recorded."""
    return sum(unchecked.missing != DEVICE_WORK for unchecked in diagnosis.unchecked)


def _next(run: Run, diagnosis: Diagnosis) -> str:
    """What most of the rules lack, and how to record that; what the verdict lacks goes first."""
    if diagnosis.verdict.next_step:
        return "" if diagnosis.verdict.bound == "unknown" else _literal(diagnosis.verdict.next_step)
    away = (DEVICE_WORK, *(() if has_gpu(run) else ("memory events",)))  # the host's memory seldom limits
    recorded = job_command(run) is not None  # what it lacks nevertheless, the job does not have
    hows = Counter(
        unchecked.how for unchecked in diagnosis.unchecked
        if unchecked.missing not in away and "`stepscope " in unchecked.how
        and not (recorded and _RECORD.fullmatch(unchecked.how))
    )  # fmt: skip
    return _literal(hows.most_common(1)[0][0]) if hows else ""


def _literal(words: str) -> str:
    return words.replace("{", "{{").replace("}", "}}")


def _traced_ranks(run: Run) -> tuple[int, ...]:
    """The ranks of which there are calls of the host."""
    return tuple(run.optional("host", "rank")["rank"].drop_nulls().unique())


def _largest(run: Run, found: Kind) -> list[Block]:
    """The largest kernels; without a device the operators; without a trace the sampled lines."""
    makers: tuple[Callable[[Run], Table], ...] = (_kernels, _operators, _lines)
    for maker in makers[1:] if found == "graph-capture" else makers:
        try:
            table = maker(run)
        except MissingData:
            continue
        if table.rows:
            return [table]
    return []


def _kernels(run: Run) -> Table:
    table = _of_busiest_rank(kernels(run), "total").sort("total", descending=True)
    return _table(
        kernels,
        table,
        "Longest kernels" + _summed_over(run),
        {"name": "kernel", "share": "share of kernels", "total": "total", "calls": "calls"},
    )


def _operators(run: Run) -> Table:
    table = _of_busiest_rank(operators(run), "host_self").sort("host_self", descending=True)
    whole = int(table["host_self"].sum())
    table = table.with_columns((pl.col("host_self") / max(whole, 1)).alias("share"))
    headings = {"name": "operator", "share": "share of operators", "host_self": "self time", "calls": "calls"}
    return _table(operators, table, "Longest operators" + _summed_over(run), headings)


def _lines(run: Run) -> Table:
    table = _of_busiest_rank(lines(run), "time")
    table = table.group_by("file", "line", "text", maintain_order=True).agg(pl.col("share", "time").sum())
    table = table.with_columns(pl.format("{}:{}", pl.col("file").str.split("/").list.last(), "line").alias("place"))
    headings = {"place": "line", "text": "code", "share": "share of step", "time": "mean per step"}
    return _table(lines, table.sort("time", descending=True), "Longest lines", headings)


def _summed_over(run: Run) -> str:
    """`, sums of 3 steps`, beside the bar of one."""
    count = traced_steps(run)
    return f", sums of {count} steps" if count > 1 else ""


def _of_busiest_rank(table: pl.DataFrame, time: str) -> pl.DataFrame:
    """The rows of one rank: the same names on several ranks would fill the screen."""
    if table["rank"].n_unique() <= 1:
        return table
    busiest = table.group_by("rank").agg(pl.col(time).sum()).sort(time, "rank", descending=[True, False])["rank"][0]
    return table.filter(pl.col("rank") == busiest)


def _table(analysis: Analysis, table: pl.DataFrame, title: str, headings: dict[str, str]) -> Table:
    units = {column.name: column.unit for column in analysis.columns} | {"share": "ratio"}
    columns = tuple((heading, units.get(name)) for name, heading in headings.items())
    rows = tuple(table.select(list(headings)).head(LARGEST).iter_rows())
    return Table(title, columns, rows)
