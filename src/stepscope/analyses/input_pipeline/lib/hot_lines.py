"""The user's lines that loading spends its time at: in workers, or, without any, in the process that trains."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.analyses.lib.line_places import LOADING_TIME, line_place
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run

__all__ = ["hot_lines", "is_definition", "statement_lines"]

MIN_SAMPLES = 5  # of all loading: fewer name no line; inside a known call any sample says more than its definition
MIN_SHARE = 0.1  # of all loading: a line with less is beside the point
MOST = 3

AROUND = 2  # lines of source after a place that are kept: decorators may stand before a definition
_STACK = ("file", "line", "function", "text", "expression", "call", "leaf", "between", "frames")
_CALLED = frozenset(("__call__", "forward", "__getitem__", "__getitems__", "__iter__", "__next__"))
_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d{1,9}) (?P<function>.*)", re.DOTALL)
_LOADER_CODE = r"^torch/"  # its own frames stand where a stack has none of the user's
_LOADER = r"^(torch/utils/data/dataloader\.py|torchdata/)"  # below the loop that asks for the next batch
_WRAPPERS = r"^(tqdm|rich|accelerate|lightning|pytorch_lightning|ignite|fastprogress)/"  # of a loader in its loop
_LOOP = r"^\s*(async )?for\b"
_DEFINITION = re.compile(r"\s*(async def|def|class|@)\b|\s*@")
_FUNCTION = re.compile(r"\s*(?:async )?def (\w+)")
_LAST_LINE = 1 << 30


@dataclass(frozen=True, slots=True)
class _Within:
    """The lines of one function: what makes a frame one of it."""

    file: str
    first: int
    last: int
    names: frozenset[str]

    def holds(self, frame: str) -> bool:
        """Is it a frame, `file:line function`, of that function?"""
        told = _FRAME.fullmatch(frame)
        return (
            told is not None
            and told["file"] == self.file
            and self.first <= int(told["line"]) <= self.last
            and told["function"] in self.names
        )


def hot_lines(
    run: Run, rank: int, inside: Place | None = None, calls: str | None = None, worker: int | None = None
) -> tuple[Place, ...]:
    """Up to MOST innermost lines of the user's own, by their share of the loading time of what a rank trains on.

    With `inside`, the definition of a function or class, only what it takes, with all that it calls. With `calls`, the
    name of a library's function such as numpy.load, only what that takes. With `worker`, only of that worker. The lines
    of definitions come last. Where other lines were sampled but none there, what `inside` returns; else `inside`.
    """
    rows = _stacks(run, rank, worker)
    whole = int(rows["weight"].sum())
    chosen = rows.filter(pl.Series(_chosen(run, rows, inside, calls), dtype=pl.Boolean))
    lines = (
        chosen.filter(~pl.col("file").str.contains(_LOADER_CODE))
        .group_by("file", "line", "function", maintain_order=True)
        .agg(pl.col("text").drop_nulls().first(), pl.col("weight", "samples").sum())
        .with_columns(share=pl.col("weight") / max(whole, 1))
    )
    if inside is None and calls is None:
        lines = lines.filter((pl.col("samples") >= MIN_SAMPLES) & (pl.col("share") >= MIN_SHARE))
    ordered = lines.sort("weight", "file", "line", descending=[True, False, False])
    found = [line_place(row, row["share"], LOADING_TIME) for row in ordered.iter_rows(named=True)]
    places = sorted(found, key=lambda place: is_definition(place.text))
    if places or inside is None:
        return tuple(places[:MOST])
    return (_statement(run, inside, ("return", "yield")) if rows.height else inside,)


def statement_lines(run: Run, rank: int, inside: Place | None, words: tuple[str, ...]) -> tuple[Place, ...]:
    """The first statement in a function that begins with one of `words`, as far as its source was kept; else its
    `hot_lines`. For what a function does at any cost: what it returns, what it goes over."""
    found = None if inside is None else _statement(run, inside, words)
    return hot_lines(run, rank, inside) if found is None or found == inside else (found,)


def is_definition(text: str) -> bool:
    """Whether a source line only defines something: Python books the cost of calling it there."""
    return _DEFINITION.match(text) is not None


def _statement(run: Run, inside: Place, words: tuple[str, ...]) -> Place:
    """The first kept line of a function that begins with one of `words`; its definition where none is."""
    for line, text in _kept_after(run, inside).iter_rows():
        if text.split() and text.split()[0] in words:
            return replace(inside, line=line, text=text.strip())
    return inside


def _kept_after(run: Run, place: Place) -> pl.DataFrame:
    """Number and text of the source lines from a place on, as far as they were kept with it."""
    near = (pl.col("file") == place.file) & pl.col("line").is_between(place.line, place.line + AROUND)
    return run.optional("sources").filter(near).sort("line").select("line", "text").drop_nulls()


def _stacks(run: Run, rank: int, worker: int | None) -> pl.DataFrame:
    """Stacks with their `weight` and `samples`: of the workers of what a rank trains on; where none was sampled, of the
    process that trains while it waits for data."""
    workers = run.optional("worker_stacks").filter(of_training(run, rank))
    if workers.height:
        return _summed(workers if worker is None else workers.filter(pl.col("worker") == worker))
    waiting = (pl.col("rank") == rank) & (pl.col("phase") == "data_wait") & (pl.col("weight") > 0)
    stacks = run.where("stacks", waiting, "rank", "step", "weight", *_STACK)
    try:
        stacks = stacks.join(steady_steps(run).select("rank", "step"), on=["rank", "step"], how="semi")
    except MissingData:
        return _summed(stacks.clear())
    call, loops = pl.col("call").fill_null(""), pl.col("text").fill_null("").str.contains(_LOOP)
    asks = call.str.contains(_LOADER) | (loops & call.str.contains(_WRAPPERS))
    return _summed(stacks.filter(~asks))


def _summed(stacks: pl.DataFrame) -> pl.DataFrame:
    known = stacks.drop_nulls(["file", "line"])
    return known.group_by(_STACK, maintain_order=True).agg(pl.col("weight").sum(), samples=pl.len())


def _chosen(run: Run, rows: pl.DataFrame, inside: Place | None, calls: str | None) -> Iterator[bool]:
    within = None if inside is None else _within(run, inside)
    for row in rows.iter_rows(named=True):
        frames = row["frames"] or (f"{row['file']}:{row['line']} {row['function']}",)
        yield (within is None or any(map(within.holds, frames))) and (calls is None or _calls(row, calls))


def _within(run: Run, call: Place) -> _Within:
    """Up to where the next known call of the same file begins."""
    try:
        rows = loader_transforms(run).filter((pl.col("file") == call.file) & (pl.col("line") > call.line))
        last = min(rows["line"].drop_nulls().to_list(), default=_LAST_LINE) - 1
    except MissingData:
        last = _LAST_LINE
    return _Within(call.file, call.line, last, _names(run, call))


def _names(run: Run, call: Place) -> frozenset[str]:
    """The function that is defined there, as far as source tells; else what it may be."""
    for _, text in _kept_after(run, call).iter_rows():
        if found := _FUNCTION.match(text):
            return frozenset((found[1],))
    return _CALLED | {call.symbol.rpartition(".")[2]}


def _calls(row: dict[str, object], name: str) -> bool:
    """Whether a stack is in a library's function or class: `numpy.load`, `torchvision.transforms.Resize`."""
    package, *parts = name.split(".")
    function = parts[-1] if parts else package
    between = row["between"] if isinstance(row["between"], list) else []
    for frame in (row["call"], row["leaf"], *between):
        path, _, called = str(frame or "").rpartition(" ")
        of_package = re.split(r"[/\\.:]", path)[0] == package
        if of_package and function in called.split("."):
            return True
    called = parts[-2] if function == "__init__" and len(parts) > 1 else function
    return re.search(rf"(^|[^\w]){re.escape(called)}\(", str(row["expression"] or row["text"] or "")) is not None
