"""The line of the user's code that host events came from, by Python frames or recorded call stacks."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import THREAD, HostTree
from stepscope.analyses.lib.library_code import is_library
from stepscope.core.nesting import innermost, nest
from stepscope.core.run import Run

__all__ = ["CallSite", "call_sites", "site_table", "user_site"]

Ints = npt.NDArray[np.int64]
_FRAME = re.compile(r"(?P<file>.+?)\((?P<line>\d{1,9})\): (?P<function>.+)")
_SITE = {"file": pl.String, "line": pl.Int64, "function": pl.String, "text": pl.String}
_DEPTH = 64  # frames of a stack that are kept; deeper ones are recursion


@dataclass(frozen=True, slots=True)
class CallSite:
    """The nearest frame of the user's own code (None if there is none), and the frames, innermost first.

    `text` is its source line, None where nothing has seen it: a trace holds no source (see `_source_texts`).
    """

    file: str | None
    line: int | None
    frames: tuple[str, ...]
    function: str | None = None
    text: str | None = None


def site_table(sites: Sequence[CallSite]) -> pl.DataFrame:
    """One row for each call site: file, line, function, text."""
    rows = [(site.file, site.line, site.function, site.text) for site in sites]
    return pl.DataFrame(rows, schema=_SITE, orient="row")


def call_sites(run: Run, tree: HostTree, rows: Ints) -> list[CallSite]:
    """The call site of each of some rows of the host tree."""
    frames = run.where("host", pl.col("kind") == "python", *THREAD, "name", "start", "end")
    frames = frames.join(
        tree.threads[np.unique(tree.frame["track"].to_numpy()[rows])], on=THREAD, how="semi", nulls_equal=True
    )
    stacks = _python_stacks(frames, tree, rows)
    if None not in stacks:
        return [stack for stack in stacks if stack]
    recorded = run.optional("host", "call_stack")["call_stack"]
    return [stack or other for stack, other in zip(stacks, _recorded_stacks(recorded, tree, rows), strict=True)]


def user_site(frames: Iterable[str]) -> CallSite:
    """The call site of a stack whose frames read `path(line): function`, innermost first; others are skipped."""
    kept = tuple(frames)[:_DEPTH]
    for frame in kept:
        match = _FRAME.fullmatch(frame)
        if match and not is_library(match["file"]):
            return CallSite(match["file"], int(match["line"]), kept, match["function"])
    return CallSite(None, None, kept)


def _python_stacks(frames: pl.DataFrame, tree: HostTree, rows: Ints) -> list[CallSite | None]:
    if frames.is_empty():
        return [None] * len(rows)
    joined = frames.select(THREAD).join(tree.threads, on=THREAD, how="left", maintain_order="left", nulls_equal=True)
    table = (joined["track"].to_numpy(), frames["start"].to_numpy(), frames["end"].to_numpy())
    nesting = nest(*table)
    found = innermost(
        nesting, *table, *(tree.frame[name].gather(rows).to_numpy() for name in ("track", "start", "end"))
    )
    names = frames["name"]
    sites: dict[int, CallSite | None] = {-1: None}
    for frame in np.unique(found[found >= 0]).tolist():
        sites[frame] = user_site(names[row] for row in _outward(nesting.parent, frame))
    return [sites[frame] for frame in found.tolist()]


def _outward(parent: Ints, row: int) -> Iterable[int]:
    while row >= 0:
        yield row
        row = int(parent[row])


def _recorded_stacks(recorded: pl.Series, tree: HostTree, rows: Ints) -> list[CallSite]:
    """By row the call stack written with the nearest operator around it; `recorded` is of all of `host`."""
    written = recorded.gather(tree.frame["host_row"])
    has_stack = (written.str.len_bytes() > 0).fill_null(False).to_numpy()
    around = rows.copy()
    while len(bare := np.flatnonzero((around >= 0) & ~has_stack[around])):
        around[bare] = tree.nesting.parent[around[bare]]
    known = {-1: CallSite(None, None, ())}
    for row in np.unique(around[around >= 0]).tolist():
        known[row] = user_site(frame.strip() for frame in written[row].split(";"))
    return [known[row] for row in around.tolist()]
