"""Put a report together from a run: facts, diagnosis and every section, each computed once."""

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from stepscope.analyses.lib.devices_used import devices_named
from stepscope.analyses.lib.job_command import job_command
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.boundary import Failure, attempt
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.report import Section
from stepscope.core.run import Run, chain
from stepscope.render.document import Device, Part, Report, RunFacts, Skipped, StepTimes
from stepscope.report.diagnose import diagnose

__all__ = ["SECTIONS", "assemble", "first_screen", "first_view", "step_times"]

_OF_XLA = "not known from a profile of XLA; of a job in PyTorch or Paddle `stepscope run -- COMMAND` records them"

SECTIONS = PluginGroup("report.sections", Section)
"""All sections."""


def assemble(run: Run) -> Report:
    """Everything a renderer draws."""
    return _report(run, SECTIONS.load())


def first_screen(run: Run) -> Report:
    """What `assemble` returns, with no section but the summary: a job that has ended waits for no other."""
    return _report(run, {"summary": SECTIONS.get("summary")})


def first_view(run: Run) -> Report:
    """What `assemble` returns, with the sections that the first screen of the page is drawn from."""
    return _report(run, {name: SECTIONS.get(name) for name in ("summary", "step-times")})


def _report(run: Run, sections: Mapping[str, Section]) -> Report:
    diagnosis = diagnose(run)
    in_order = sorted(sections.items(), key=lambda item: (item[1].order, item[0]))
    parts = [_part(name, section, run) for name, section in in_order]
    return Report(
        run=_facts(run),
        verdict=diagnosis.verdict,
        findings=tuple(diagnosis.findings),
        checked=diagnosis.checked,
        unchecked=diagnosis.unchecked,
        skipped=tuple(Skipped(**row) for row in run.optional("skipped").iter_rows(named=True)),
        parts=tuple(part for part, _ in parts),
        failed=(*diagnosis.failed, *(f"section {part.name}" for part, has_failed in parts if has_failed)),
        overlaps=diagnosis.overlaps,
    )


def step_times(run: Run) -> StepTimes | None:
    """Step times over the steps that averages are from; None if the run has no steps."""
    try:
        durations = steady_steps(run)["duration"]
    except MissingData:
        return None
    if durations.is_empty():
        return None
    column = pl.col("duration")
    median, mean, p10, p90 = (
        durations.to_frame()
        .select(
            column.median().alias("median"),
            column.mean().alias("mean"),
            column.quantile(0.1, "linear").alias("p10"),
            column.quantile(0.9, "linear").alias("p90"),
        )
        .row(0)
    )
    return StepTimes(median=round(median), mean=round(mean), p10=round(p10), p90=round(p90))


def _part(name: str, section: Section, run: Run) -> tuple[Part, bool]:
    """A section, and whether it failed."""
    empty = Part(name=name, title=section.title, group=section.group)
    try:
        blocks = attempt(name, lambda: tuple(section.build(run)))
    except MissingData as lack:
        is_xla = "xla" in run.optional("processes", "framework")["framework"].to_list()
        return replace(empty, missing=lack.what, how=_OF_XLA if is_xla else lack.how), False
    if isinstance(blocks, Failure):
        return replace(empty, missing=blocks.what, how=blocks.how), True
    return replace(empty, blocks=blocks), False


def _facts(run: Run) -> RunFacts:
    processes = run.optional("processes")
    frameworks = processes["framework"].drop_nulls().unique(maintain_order=True)
    times, steps = attempt("step times", lambda: step_times(run)), attempt("steps", lambda: _step_count(run))
    return RunFacts(
        path=run.path,
        command=job_command(run),
        framework=frameworks[0] if len(frameworks) else None,
        ranks=_all_ranks(run),
        devices=_devices(run),
        steps=0 if isinstance(steps, Failure) else steps,  # the sections about steps tell why
        step_ns=None if isinstance(times, Failure) else times,
    )


def _all_ranks(run: Run) -> tuple[int, ...]:
    ranks = run.per_rank(_ranks, chain)
    return tuple(sorted(set(ranks)))


def _ranks(run: Run) -> tuple[int, ...]:
    """The ranks of which there is anything."""
    found: set[int] = set()
    for table in ("processes", "steps", "host", "device"):
        found.update(run.optional(table, "rank")["rank"].drop_nulls().unique())
    return tuple(sorted(found))


def _devices(run: Run) -> tuple[Device, ...]:
    """Devices that the run names or that did work."""
    rows = devices_named(run).drop_nulls("device").with_columns(pl.col("rank").fill_null(0)).unique(maintain_order=True)
    return tuple(Device(**row) for row in rows.iter_rows(named=True))


def _step_count(run: Run) -> int:
    try:
        counts = steps(run).group_by("rank").agg(pl.col("weight").sum())["weight"]
    except MissingData:
        return 0
    return max(counts, default=0)
