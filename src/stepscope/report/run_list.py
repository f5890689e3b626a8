"""The runs of a folder as a list: the first screen of each, in one row."""

from collections.abc import Callable, Iterable

import polars as pl

from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.boundary import Failure, attempt
from stepscope.core.errors import MissingData, StepscopeError
from stepscope.core.run import Run
from stepscope.render.format import title_text
from stepscope.render.run_list import ListedRun, with_changes
from stepscope.render.verdict import sentence
from stepscope.report.assemble import first_screen
from stepscope.storage.listing import RecordedRun

__all__ = ["list_runs"]

_SECOND = 1e9  # ns


def list_runs(found: Iterable[RecordedRun], open_: Callable[[str], Run]) -> list[ListedRun]:
    """A row for each run, the newest first; one that cannot be opened says why."""
    return with_changes([_listed(run, open_) for run in found])


def _listed(found: RecordedRun, open_: Callable[[str], Run]) -> ListedRun:
    name, path = found.path.name, str(found.path)
    try:
        run = open_(path)
    except StepscopeError as error:
        return ListedRun(
            name=name, path=path, command=found.command, started=found.started, problem=str(error).partition("\n")[0]
        )
    report = first_screen(run)
    top = report.findings[0].finding.title if report.findings else None
    speed = attempt("throughput", lambda: _throughput(run))
    return ListedRun(
        name=name,
        path=path,
        command=found.command,
        started=found.started,
        step_ns=report.run.step_ns.mean if report.run.step_ns else None,
        samples_per_second=None if isinstance(speed, Failure) else speed,
        bound=sentence(report.verdict).partition(":")[0],
        share=report.verdict.share,
        finding=title_text(top) if top else "",
    )


def _throughput(run: Run) -> float | None:
    """Samples per second and rank, over the steps that averages are from; None where samples are not known."""
    try:
        means = steady_steps(run).select(pl.col("samples", "duration").mean()).row(0)
    except MissingData:
        return None
    samples, duration = means
    return samples / duration * _SECOND if samples and duration else None
