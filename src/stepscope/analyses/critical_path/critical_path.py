"""The critical path of each step: the chain of activities, each waiting for the one before, that decides its length.

One row is a segment of the path. The segments of a step fill it from start to end, without gap or overlap. Steps are
those of `step_breakdown`; a recording without step markers is one step, 0. The path is walked backwards from the end of
the step. At each point it asks what the activity waited for last:

- a kernel: for the work before it on its stream, for its launch, or for an event of another stream;
- a host thread: for the device in a call that synchronizes, for autograd's thread, for gloo's thread, or for its own
  operation before.

A call that waits is on the path only from the end of what it waited for. What ran meanwhile replaces the wait. So
shortening a segment by some time shortens the step by at most that time. Shortening anything else does not shorten it
at all.

Classes:

- `operator`, `compute`, `communication`, `copy`;
- `host`: Python and all else between operators;
- `runtime`: calls of the runtime or driver;
- `launch latency`: from the end of a launch to the start of its kernel;
- `kernel gap`: from the end of work to the start of what waited for it on the device;
- `synchronization`: the return of a call that waited, or all of it if its cause is unknown;
- `data wait`: inside the loader's next();
- `unknown`: a delay of the device without a cause in the trace, such as more than 100 µs after a launch.

A collective waits for other ranks inside its kernel; paths do not change ranks.

Definition: last arrival, the walk of program activity graphs (Yang and Miller, "Critical path analysis for the
execution of parallel and distributed programs", ICDCS 1988) from the end.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.critical_path.lib.path_pieces import Pieces, cut, pieces
from stepscope.analyses.critical_path.lib.path_waits import main_tracks, path_waits, synchronizes, transfers_on_host
from stepscope.analyses.critical_path.lib.path_walk import DELAY, THREAD, WORK, causes, on_thread, walk
from stepscope.analyses.critical_path.lib.path_work import LAUNCH, Work, path_work
from stepscope.analyses.device.lib.device_gaps import LONG_DELAY
from stepscope.analyses.host.lib.host_activity import ACTIVITY, host_activity
from stepscope.analyses.lib.device_work import work_names
from stepscope.analyses.lib.dominant_range import Stretches
from stepscope.analyses.lib.host_events import THREAD as OF_THREAD
from stepscope.analyses.lib.host_events import categories
from stepscope.analyses.lib.host_order import HostOrder, host_order
from stepscope.analyses.lib.markers import data_waits
from stepscope.analyses.lib.result_tables import RANK, RECORD_TRACE, shaped
from stepscope.analyses.lib.tb_step_bounds import adjusted_steps
from stepscope.analyses.steps.lib.empty_steps import not_empty
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, within
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

CLASSES = (
    "operator", "host", "runtime", "launch latency", "compute", "communication", "copy", "kernel gap",
    "synchronization", "data wait", "unknown",
)  # fmt: skip
"""Classes of segments."""

COLUMNS = (
    RANK,
    Column("step", pl.Int64, None, "number in the step marker; 0 without markers"),
    Column("start", pl.Int64, "ns", "start of the segment", "trace"),
    Column("end", pl.Int64, "ns", "end of the segment", "trace"),
    Column("duration", pl.Int64, "ns", "length of the segment"),
    Column("class", pl.String, None, f"what kind of time it is: {', '.join(CLASSES)}"),
    Column("device", pl.Int32, None, "index of the device; null: on the host"),
    Column("lane", pl.String, None, "thread, or stream of the device"),
    Column("name", pl.String, None, "operator, call, annotation, kernel or copy; null: between all of these"),
    Column("operator", pl.String, None, "innermost operator around it, or that launched it; null: none known"),
    Column("module", pl.String, None, "module that Python was in, of class host; null: none, or not recorded"),
    Column("file", pl.String, None, "file of the user's code, of class host; null: not recorded"),
    Column("line", pl.Int64, None, "line of the user's code, of class host"),
    Column("function", pl.String, None, "function of that line"),
    Column("index", pl.Int64, None, "`host.index` of what is named, or `device.index` if device is not null"),
)
_NAMES = tuple(column.name for column in COLUMNS)
_SITE = ("module", "file", "line", "function")
_CLASS = pl.Enum(CLASSES)
_DELAYS = pl.Series(("launch latency", "kernel gap", "unknown"), dtype=_CLASS)
_OF_ROLE = {"compute": "compute", "communication": "communication", "memory": "copy"}
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Names:
    """`texts` are all names and, last, null, as an enumeration; `host` and `device` say which one each row has."""

    texts: pl.Series
    host: Ints
    device: Ints

    def of(self, names: Ints, rows: Ints) -> pl.Series:
        """The names of some rows out of `host` or `device`; null for row -1."""
        return self.texts.gather(np.append(names, len(self.texts) - 1)[rows])


def compute(run: Run) -> pl.DataFrame:
    """Rows by rank and time. Raises MissingData in a run without host events and without device work."""
    return shaped(path_rows(run), COLUMNS)


def path_rows(run: Run) -> pl.DataFrame:
    """The rows of the table, whose class, name and operator are enumerations here; `number` numbers the steps.

    Raises as `compute` does.
    """
    return run.once(_path_rows)


def _path_rows(run: Run) -> pl.DataFrame:
    order, work = _host(run), None
    try:
        work = path_work(run, order)
    except MissingData:
        if order is None:
            raise MissingData("host events or device work", how=RECORD_TRACE) from None
    steps, names = _steps(run, work), _names(order, work_names(run) if work is not None else None)
    hops = _hops(run, order, work, steps)
    parts = []
    if order is not None:
        parts.append(_of_threads(run, order, names, steps, hops[:, hops[1] == THREAD]))
    if work is not None:
        parts.append(_of_devices(order, work, names, steps, hops[:, hops[1] != THREAD]))
    duration = pl.col("end") - pl.col("start")
    whole = pl.concat([part.with_columns(duration=duration).select("number", *_NAMES) for part in parts])
    number, start = whole["number"].to_numpy(), whole["start"].to_numpy()
    by_time = np.argsort(start, kind="stable")  # much faster than to sort the table
    order_of_path = by_time[np.argsort(number[by_time], kind="stable")]
    unknown = [name for name in _SITE if whole[name].null_count() == whole.height]  # alike in any order
    path: pl.DataFrame = whole.drop(unknown)[order_of_path].hstack(whole.select(unknown)).select(whole.columns)
    _check(path, steps)
    return path


def _names(order: HostOrder | None, of_work: pl.Series | None) -> _Names:
    """The names of the host's events and of the device's work in one enumeration."""
    named = [order.tree.name if order is not None else None, of_work]
    known = [categories(names) for names in named if names is not None]
    kind = pl.Enum(pl.concat(known).unique(maintain_order=True))
    texts = pl.concat([kind.categories, pl.Series([None], dtype=pl.String)]).cast(kind)
    host, device = (_places(names, kind) for names in named)
    return _Names(texts, host, device)


def _places(names: pl.Series | None, kind: pl.Enum) -> Ints:
    """For each row the place of its name in another enumeration; the one behind its end for a row without a name."""
    if names is None:
        return np.empty(0, dtype=np.int64)
    distinct = categories(names)
    places = np.append(distinct.cast(kind).to_physical().to_numpy(), len(kind.categories)).astype(np.int64)
    found: Ints = places[names.to_physical().fill_null(len(distinct)).to_numpy()]
    return found


def _host(run: Run) -> HostOrder | None:
    try:
        return host_order(run)
    except MissingData:
        return None


def _steps(run: Run, work: Work | None) -> pl.DataFrame:
    """number, rank, step, start, end: adjusted steps, and the whole recording of ranks that have device work only."""
    columns = ("rank", "step", "start", "end")
    try:
        steps = adjusted_steps(run).select(columns).filter(not_empty(run))
    except MissingData:
        steps = pl.DataFrame(schema=dict.fromkeys(columns, pl.Int64)).cast({"rank": pl.Int32})
    if work is not None:
        alone = work.frame.filter(~pl.col("rank").is_in(steps["rank"].implode())).group_by("rank")
        whole = alone.agg(pl.col("start").min(), pl.col("end").max()).with_columns(step=pl.lit(0, dtype=pl.Int64))
        steps = pl.concat([steps, whole.select(columns)])
    steps = steps.filter(pl.col("end") > pl.col("start")).sort("rank", "start")
    return steps.with_row_index("number")


def _hops(run: Run, order: HostOrder | None, work: Work | None, steps: pl.DataFrame) -> Ints:
    """The paths of all steps as rows: place of the step, what, track or row, from, until."""
    mains = main_tracks(run) if order is not None else {}
    waits = path_waits(run, order, work) if order is not None else None
    start, end = (steps[edge].to_numpy() for edge in ("start", "end"))
    return walk(causes(order, waits, work, mains), _last_places(order, work, steps, mains), start, end)


def _last_places(order: HostOrder | None, work: Work | None, steps: pl.DataFrame, mains: dict[int, int]) -> Ints:
    """What ends with each step: device work, the last to start; else the main thread, unless others alone end there."""
    at_end = pl.col("end").is_in(steps["end"].implode())
    keys = list(steps.select("rank", "end").iter_rows())
    places = {(rank, end): on_thread(mains[rank]) for rank, end in keys if rank in mains}
    if order is not None:
        operators = order.tree.frame.select("rank", "end", "track").filter(at_end & pl.Series(order.tree.operators))
        operators = operators.sort("track", descending=True)
        by_mains = operators.filter(pl.col("track").is_in(list(mains.values())))
        places |= {(rank, end): on_thread(track) for rank, end, track in pl.concat([operators, by_mains]).iter_rows()}
    if work is not None:
        pieces = work.frame.select("rank", "end", "start").with_row_index("row").filter(at_end)
        pieces = pieces.sort("start", maintain_order=True).select("rank", "end", "row")
        places |= {(rank, end): row for rank, end, row in pieces.iter_rows()}
    return np.array([places[key] for key in keys], dtype=np.int64)


def _of_threads(run: Run, order: HostOrder, names: _Names, steps: pl.DataFrame, hops: Ints) -> pl.DataFrame:
    of_step, _, track, start, end = hops
    found = pieces(order, track, start, end) if len(track) else Pieces(track, track, start, end)
    waits = _data_waits(run, order)
    found = cut(found, track, {this: np.unique(spans) for this, spans in waits.items()})
    row, tracks = found.row, track[found.of]
    known, at = pl.Series(row >= 0), np.maximum(row, 0)
    is_operator = order.tree.operators
    operator = np.where(row >= 0, np.where(is_operator[at], at, order.tree.owner[at]), -1)
    operator[~is_operator[operator]] = -1
    classes = _host_classes(order, row, _inside(waits, tracks, found))
    rows: pl.DataFrame = steps.select("number", "rank", "step")[of_step[found.of]]
    return rows.hstack(_sites(run, order, found, tracks, classes)).with_columns(
        classes,
        start=pl.Series(found.start, dtype=pl.Int64),
        end=pl.Series(found.end, dtype=pl.Int64),
        device=pl.lit(None, dtype=pl.Int32),
        lane=order.tree.threads["thread"].gather(tracks),
        name=names.of(names.host, row),
        operator=names.of(names.host, operator),
        index=pl.when(known).then(order.tree.frame["index"].gather(at)),
    )


def _sites(run: Run, order: HostOrder, found: Pieces, track: Ints, classes: pl.Series) -> pl.DataFrame:
    """Where Python was in the pieces of class host, null in all others."""
    of_host = (classes == "host").to_numpy()
    asked = Stretches(track[of_host], found.start[of_host], found.end[of_host])
    known = host_activity(run, order.tree, asked).select(_SITE)
    place = pl.Series(np.where(of_host, np.cumsum(of_host) - 1, len(known)))
    return pl.concat([known, known.clear(1)])[place]


def _data_waits(run: Run, order: HostOrder) -> dict[int, Spans]:
    """For each thread the times when it waited for data, as a set."""
    waits = data_waits(run).join(order.tree.threads, on=OF_THREAD, nulls_equal=True).sort("track", "start")
    return {part["track"][0]: part.select("start", "end").to_numpy() for part in waits.partition_by("track")}


def _inside(waits: dict[int, Spans], track: Ints, found: Pieces) -> npt.NDArray[np.bool_]:
    """Which pieces, none of which crosses an edge of a wait of its thread, lie in one."""
    inside = np.zeros(len(track), dtype=np.bool_)
    for this, spans in waits.items():
        asked = np.flatnonzero(track == this)
        inside[asked] = within(np.stack((found.start[asked], found.end[asked]), axis=1), spans)
    return inside


def _host_classes(order: HostOrder, row: Ints, waits: npt.NDArray[np.bool_]) -> pl.Series:
    tree, codes = order.tree, np.full(len(row), CLASSES.index("host"))
    calls = tree.calls[row]  # of -1 this reads the last row, which the mask leaves out
    for name, rows in {
        "operator": tree.operators[row],
        "runtime": calls,
        "synchronization": calls & tree.named(synchronizes)[row],
        "communication": ~calls & tree.named(transfers_on_host)[row],
    }.items():
        codes[rows & (row >= 0)] = CLASSES.index(name)
    codes[waits] = CLASSES.index("data wait")
    return pl.Series("class", CLASSES, dtype=_CLASS).gather(codes)


def _of_devices(order: HostOrder | None, work: Work, names: _Names, steps: pl.DataFrame, hops: Ints) -> pl.DataFrame:
    of_step, kind, row, start, end = hops
    explained = (kind == DELAY) & (end - start <= LONG_DELAY)
    roles = work.frame["role"].replace_strict(_OF_ROLE, return_dtype=_CLASS).gather(row)
    delays = np.where(explained, np.where(work.via[row] == LAUNCH, 0, 1), 2)
    frame = work.frame.select("device", "index", lane="stream")[row]
    operator = np.full(len(row), -1, dtype=np.int64)
    if order is not None:
        operator = np.where(work.call[row] >= 0, order.tree.owner[work.call[row]], -1)
    rows: pl.DataFrame = steps.select("number", "rank", "step")[of_step]
    nowhere = [pl.lit(None, dtype=ACTIVITY[name]).alias(name) for name in _SITE]
    return rows.hstack(frame).with_columns(
        *nowhere,
        pl.when(pl.Series(kind == WORK)).then(roles).otherwise(_DELAYS.gather(delays)).alias("class"),
        start=pl.Series(start, dtype=pl.Int64),
        end=pl.Series(end, dtype=pl.Int64),
        name=names.of(names.device, row),
        operator=names.of(names.host, operator),
    )  # fmt: skip


def _check(path: pl.DataFrame, steps: pl.DataFrame) -> None:
    """The segments of each step fill it exactly."""
    number, starts, ends = (path[name].to_numpy() for name in ("number", "start", "end"))
    first = np.append(True, number[1:] != number[:-1])[: len(number)]
    assert (ends > starts).all()
    assert (starts[1:] == ends[:-1])[~first[1:]].all()
    assert np.array_equal(starts[first], steps["start"].to_numpy())
    assert np.array_equal(ends[np.append(first[1:], True)[: len(number)]], steps["end"].to_numpy())


LEADING = ("step", "class", "name", "duration", "operator", "file", "line", "module", "start")
ANALYSIS = critical_path = Analysis(compute=compute, columns=COLUMNS, scope="rank", leading=LEADING)
