"""What the input pipeline does with its time: stages of each loader, and its workers."""

import polars as pl

from stepscope.analyses.input_pipeline.loader_batches import loader_batches
from stepscope.analyses.input_pipeline.loader_lanes import loader_lanes
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING, loader_stages
from stepscope.analyses.input_pipeline.loader_starts import loader_starts
from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.analyses.input_pipeline.loader_workers import loader_workers
from stepscope.analyses.input_pipeline.stall_pattern import stall_pattern
from stepscope.core.errors import MissingData
from stepscope.core.report import Block, Lane, Lanes, Section, Text, Value
from stepscope.core.run import Analysis, Run
from stepscope.report.sections import excerpt, many

__all__ = ["SECTION"]

_STAGES = 12
_WORKERS = 16
_CALLS = 10
_LINES = 8
_KINDS = (
    "data wait", "training", "computing", "fetching", "blocked", "waiting for a core",
    "serializing and sending", "idle, out of order", "idle, queue full",
)  # fmt: skip
_HANDING_OVER = {"enqueueing": "serializing and sending", "sending": "serializing and sending"}
_DISTURBED = 0.1  # of the time of fetches: waits for a core that short change no conclusion
_SEEN = 0.9  # of the time: a gap as wide as a batch is asked about
_BLANK = "Gaps in a worker's lane were not recorded: quick batches are sampled."
_NESTED = "Transforms within transforms count in both: no share is given where the total exceeds the process time."
_REGULAR = 0.5  # of the distances between stalls: with less there is no pattern to tell
_STAGE = {
    "rank": "rank", "loader": "loader", "stage": "stage", "where": "where", "count": "count", "mean": "mean",
    "wall": "total", "cpu": "CPU time", "waiting": "waiting", "share": "share of process time",
}  # fmt: skip
_WORKER = {
    "rank": "rank", "loader": "loader", "worker": "worker", "batches": "batches", "busy": "busy", "running":
    "on a core", "core_wait": "waiting for a core", "enqueueing": "enqueueing",
    "idle_queue_full": "idle, queue full", "idle_out_of_order": "idle, out of order", "sending": "sending",
}  # fmt: skip
_CALL = {
    "rank": "rank", "loader": "loader", "stage": "stage", "name": "name", "count": "count", "mean": "mean", "own":
    "own time", "share": "share of fetch",
}  # fmt: skip
_LINE = {
    "rank": "rank", "loader": "loader", "file": "file", "line": "line", "text": "source", "samples": "samples", "share":
    "share of fetch",
}  # fmt: skip


def build(run: Run) -> list[Block]:
    if not run.rows("loader_spans"):
        if run.rows("loaders"):
            raise MissingData("spans of the input pipeline", how=RECORD_LOADING)
        return []
    stages = loader_stages(run)
    nested = bool((stages["share"] > 1).any())
    stages = stages.with_columns(share=pl.when(pl.col("share") <= 1).then("share"))
    blocks = excerpt(
        "Stages of loading", loader_stages, stages, _told(stages, _STAGE), limit=_STAGES, name="loader_stages"
    )
    blocks += [Text(_NESTED)] if nested else []
    calls = _optional(loader_transforms, run)
    if calls is not None:
        title, headings = "Calls in data loading", _told(calls, _CALL)
        blocks += excerpt(title, loader_transforms, calls, headings, limit=_CALLS, name="loader_transforms")
    lines = _optional(loader_lines, run)
    if lines is not None:
        title = "Lines of the workers"
        blocks += excerpt(title, loader_lines, lines, _told(lines, _LINE), limit=_LINES, name="loader_lines")
    workers = _optional(loader_workers, run)
    if workers is not None:
        headings = _told(workers, _WORKER)
        blocks += excerpt(
            "DataLoader workers", loader_workers, workers, headings, limit=_WORKERS, name="loader_workers"
        )
    return [*_lanes(run), *blocks, *_noise(workers), *_started(run), *_late(run), *_stalls(run)]


def _told(rows: pl.DataFrame, headings: dict[str, str]) -> dict[str, str]:
    """Headings without a lone loader."""
    lone = rows["loader"].n_unique() == 1
    return {column: heading for column, heading in headings.items() if not (lone and column == "loader")}


def _lanes(run: Run) -> list[Block]:
    """The workers of the loader that training waits for most, beside the process that trains."""
    table = _optional(loader_lanes, run)
    if table is None:
        return []
    waits = table.filter(pl.col("state") == "data wait").with_columns(wait=pl.col("end") - pl.col("start"))
    longest = waits.group_by("rank", "loader", maintain_order=True).agg(pl.col("wait").sum()).sort("wait").tail(1)
    own = table.join(longest, on=["rank", "loader"], how="semi", nulls_equal=True)
    first, last = int(own["start"].min()), int(own["end"].max())  # type: ignore[arg-type]
    state = pl.col("state").replace(_HANDING_OVER)
    spans = own.with_columns(pl.col("start", "end") - first, state).sort("worker", "start", nulls_last=True)
    workers = spans["worker"].unique(maintain_order=True).to_list()
    shown = [*workers[:-1][:_WORKERS], None]
    lanes = tuple(Lane(_who(worker), _spans(spans, worker)) for worker in shown)
    done = {what for lane in lanes for _, _, what in lane.spans}
    title = "Workers and training, batch by batch"
    if table["rank"].n_unique() > 1:
        title += f", rank {own.item(0, 'rank')}"
    block = Lanes(title, last - first, tuple(kind for kind in _KINDS if kind in done), lanes)
    seen = min(sum(end - start for start, end, _ in lane.spans) for lane in lanes)
    part = Text("These lanes show {} of the run.", (Value(last - first, "ns"),))
    return [block, part, Text(_BLANK)] if seen < _SEEN * (last - first) else [block, part]


def _who(worker: int | None) -> str:
    return "training" if worker is None else f"worker {worker}"


def _spans(spans: pl.DataFrame, worker: int | None) -> tuple[tuple[int, int, str], ...]:
    own = spans.filter(pl.col("worker").eq_missing(pl.lit(worker, dtype=pl.Int32)))
    return tuple(own.select("start", "end", "state").iter_rows())


def _noise(workers: pl.DataFrame | None) -> list[Block]:
    """Are the times above those of a machine without cores to spare?"""
    known = workers.drop_nulls("core_wait") if workers is not None else pl.DataFrame()
    if known.is_empty():
        return []
    waited, busy = int(known["core_wait"].sum()), int(known["busy"].sum())
    if not busy or waited < _DISTURBED * busy:
        return []
    text = (
        "Workers waited for a CPU core for {} of their loading time. Wall times include that wait: compare CPU times. "
        "The table core_waits shows who used the cores."
    )
    return [Text(text, (Value(waited / busy, "ratio"),))]


def _started(run: Run) -> list[Block]:
    """What the starts of workers cost, of each loader whose workers are started again and again."""
    starts = _optional(loader_starts, run)
    if starts is None:
        return []
    each = starts.drop_nulls("waited_start").group_by("loader", "rank", "iterator").agg(
        waited=pl.col("waited_start").max() + pl.col("ended").max().fill_null(0)
    )  # fmt: skip
    loaders = each.group_by("loader").agg(pl.col("waited").mean(), times=pl.len()).filter(pl.col("times") > 1)
    return [
        Text(
            f"Workers of loader {{}} started {many(times, 'time')}. Each start and end cost training {{}}.",
            (Value(loader, "count"), Value(times, "count"), Value(waited, "ns")),
        )
        for loader, waited, times in loaders.sort("loader").iter_rows()
    ]


def _late(run: Run) -> list[Block]:
    """How many batches were not ready when they were needed."""
    batches = _optional(loader_batches, run)
    if batches is None:
        return []
    late = batches.filter(pl.col("late") > 0)
    if late.is_empty():
        return [
            Text(
                f"All {many(batches.height, 'fully recorded batch', 'fully recorded batches')} were ready in time.",
                (Value(batches.height, "count"),),
            )
        ]
    mean = float(late["late"].sum()) / late.height
    batches_told = many(batches.height, "fully recorded batch", "fully recorded batches")
    text = f"{{}} of {batches_told} came late, by {{}} on average."
    return [Text(text, (Value(late.height, "count"), Value(batches.height, "count"), Value(mean, "ns")))]


def _stalls(run: Run) -> list[Block]:
    """One sentence for each loader that stalls at every Nth batch, N being its workers."""
    patterns = _optional(stall_pattern, run)
    if patterns is None:
        return []
    return [
        Text(
            f"Training stalls {{}} every {many(row['period'], 'batch', 'batches')}, once per round of workers: the "
            "workers run in lockstep.",
            (Value(row["stall"], "ns"), Value(row["period"], "count")),
        )
        for row in patterns.iter_rows(named=True)
        if row["period"] == row["workers"] and row["regular"] >= _REGULAR
    ]


def _optional(analysis: Analysis, run: Run) -> pl.DataFrame | None:
    try:
        return analysis(run)
    except MissingData:
        return None


SECTION = Section(title="Input pipeline", order=45, group="input", build=build)
