"""A list of runs: what each was, how long its steps took, and what limits it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from stepscope.core.report import Cell, Table
from stepscope.core.schema import Unit
from stepscope.render.format import plain, quantity

__all__ = ["ListedRun", "run_list_document", "run_list_table", "with_changes"]

_NS = 1_000_000_000
_COLUMNS: tuple[tuple[str, Unit | None], ...] = (
    ("run", None), ("when", None), ("step", "ns"), ("change", "ratio"), ("samples/s", "count"), ("verdict", None),
    ("top finding", None), ("command", None),
)  # fmt: skip
_ORDER = (0, 2, 5, 6, 3, 1, 4, 7)  # most useful first, where room is short
_MEANINGS = ("", "start of the job", "mean", "of the step since the run of the same command before", "", "", "", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """One run. `started` is in ns since the Unix epoch, `step_ns` the mean step; None where it is not known.

    `change` is the step over that of the run of the same command before, less 1; None for the first. `problem` says why
    the run could not be opened; all else is then empty.
    """

    name: str
    path: str
    command: tuple[str, ...] = ()
    started: int | None = None
    step_ns: int | None = None
    samples_per_second: float | None = None
    change: float | None = None
    bound: str = ""
    share: float | None = None
    finding: str = ""
    problem: str = ""


def with_changes(runs: Iterable[ListedRun]) -> list[ListedRun]:
    """The same runs, each with the change since the run of its command before; the newest comes first."""
    last: dict[tuple[str, ...], int] = {}
    found = []
    for run in sorted(runs, key=lambda one: (one.started or 0, one.name)):
        before = last.get(run.command)
        found.append(replace(run, change=run.step_ns / before - 1 if run.step_ns and before else None))
        if run.step_ns:
            last[run.command] = run.step_ns
    return found[::-1]


def run_list_table(runs: Iterable[ListedRun]) -> Table:
    """A row for each run."""
    return Table("", _COLUMNS, tuple(_row(run) for run in runs), order=_ORDER, meanings=_MEANINGS)


def run_list_document(folder: str, runs: Iterable[ListedRun]) -> dict[str, object]:
    """The list as a document of the page; `key` is the address of each run."""
    rows = [asdict(run) | {"key": str(number), "when": _when(run)} for number, run in enumerate(runs, 1)]
    return {
        "schema": "stepscope-page", "version": 1, "name": "Runs", "subject": folder, "sections": [], "runs": rows,
    }  # fmt: skip


def _row(run: ListedRun) -> tuple[Cell, ...]:
    if run.problem:
        return plain(run.name), _when(run), None, None, None, plain(run.problem, 400), "", _command(run)
    verdict = f"{run.bound} {quantity(run.share, 'ratio')}" if run.share is not None else run.bound
    return (
        plain(run.name), _when(run), run.step_ns, run.change, run.samples_per_second, verdict, plain(run.finding, 400),
        _command(run),
    )  # fmt: skip


def _command(run: ListedRun) -> str:
    return plain(" ".join(run.command), 400)


def _when(run: ListedRun) -> str:
    """Date and minute, where this is read."""
    if run.started is None:
        return ""
    return datetime.fromtimestamp(run.started / _NS).astimezone().strftime("%Y-%m-%d %H:%M")
