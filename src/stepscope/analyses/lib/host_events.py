"""What the host did, nested per thread: operators and annotations, and the runtime and driver calls inside them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.core.errors import MissingData
from stepscope.core.nesting import Nesting, nest
from stepscope.core.run import Run

__all__ = [
    "CALLS",
    "OPERATIONS",
    "THREAD",
    "HostTree",
    "categories",
    "enumerated",
    "host_names",
    "host_tree",
    "is_operator",
    "is_operator_name",
    "step_number",
]

OPERATIONS = ("operator", "annotation")
CALLS = ("runtime", "driver")
THREAD = ("rank", "pid", "thread")
_COLUMNS = ("rank", "index", "name", "start", "end", "correlation", "external_id")
_KIND = pl.Enum(OPERATIONS + CALLS)
# Annotations that traces before torch 1.12 wrote as operators.
_ANNOTATIONS = r"^ProfilerStep#|^enumerate\(Data|^Optimizer\.|^(?:Distributed)?DataParallel\.forward$"
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class HostTree:
    """`frame` holds operators, annotations and calls, without their threads' texts. The arrays follow its rows.

    `track` in it numbers the threads, `host_row` is the row in `host`, `kind` is an enumeration. `threads` has a row
    for each track, in order.
    `owner` is the row of the innermost operator or annotation around a row, -1 without one; `calls` are the rows that
    are calls of the runtime or driver. `name` is `frame["name"]` as an enumeration, which groups and joins as numbers;
    it sorts by first row, not by name.
    """

    frame: pl.DataFrame
    threads: pl.DataFrame
    nesting: Nesting
    owner: Ints
    calls: Bools
    name: pl.Series
    _kept: dict[str, pl.Series] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> pl.Series:
        """The distinct names of all host events, those of the rows among them."""
        return categories(self.name)

    def passing(self, test: pl.Expr) -> Bools:
        """The rows whose name passes a test of the column `name`, which is asked once for each name."""
        passed = self.names.alias("name").to_frame().select(test.fill_null(False)).to_series()
        return self._of_names(passed.to_numpy())

    def named(self, test: Callable[[str], bool]) -> Bools:
        """As `passing`, for a function."""
        return self._of_names(np.array([test(name) for name in self.names], dtype=np.bool_))

    def _of_names(self, passed: Bools) -> Bools:
        """For each row what is said of its name; False for a row without one."""
        if not passed.any():
            return np.zeros(self.frame.height, dtype=np.bool_)
        if "code" not in self._kept:  # in 64 bits, which is what numpy looks up with
            self._kept["code"] = self.name.to_physical().fill_null(len(self.names)).cast(pl.Int64)
        found: Bools = np.append(passed, False)[self._kept["code"].to_numpy()]
        return found

    def of_threads(self, test: pl.Expr) -> Bools:
        """The rows whose thread passes a test of the columns of `threads`."""
        passed: Bools = self.threads.select(test.fill_null(False)).to_series().to_numpy()
        found: Bools = passed[self.frame["track"].to_numpy()]
        return found

    def with_threads(self, rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
        """Some rows of `frame`, which have `track`, with columns of `threads` beside them."""
        return rows.hstack(self.threads.select(columns)[rows["track"]])

    @property
    def steps(self) -> Bools:
        """The rows that mark a step: `ProfilerStep#N`."""
        return self.passing(step_number().is_not_null())

    @property
    def operators(self) -> Bools:
        """The rows that are operators: those of `is_operator`."""
        if "operators" not in self._kept:
            named = pl.Series(self.passing(is_operator_name()))
            self._kept["operators"] = (self.frame["kind"] == "operator") & named
        found: Bools = self._kept["operators"].to_numpy()
        return found


def enumerated(names: pl.Series) -> pl.Series:
    """Names as an enumeration of the distinct ones, in order of their first rows."""
    return names.cast(pl.Enum(names.unique(maintain_order=True).drop_nulls()))


def categories(names: pl.Series) -> pl.Series:
    """The distinct texts of an enumeration, in its order."""
    kind = names.dtype
    assert isinstance(kind, pl.Enum)
    return kind.categories


def host_names(run: Run) -> pl.Series:
    """The names of all rows of `host`, as an enumeration."""
    return run.once(_host_names)


def _host_names(run: Run) -> pl.Series:
    return enumerated(run.optional("host", "name")["name"])


def host_tree(run: Run) -> HostTree:
    """Nest the host events of a run by time. Raises MissingData without any operator, annotation or call."""
    return run.once(_host_tree)


def is_operator() -> pl.Expr:
    """Rows of host events that are operators, not annotations that an old trace calls so."""
    return (pl.col("kind") == "operator") & is_operator_name()


def is_operator_name() -> pl.Expr:
    """Names that are not those of annotations that an old trace calls operators."""
    return ~pl.col("name").str.contains(_ANNOTATIONS)


def step_number() -> pl.Expr:
    """The N of `ProfilerStep#N`, null for other names and for a number beyond 64 bits."""
    return pl.col("name").str.extract(r"^ProfilerStep#(\d+)").cast(pl.Int64, strict=False)


def _host_tree(run: Run) -> HostTree:
    kind = run.optional("host", "kind")["kind"].cast(_KIND, strict=False)
    chosen = kind.is_not_null()
    if not chosen.any():
        raise MissingData("host events", how=RECORD_TRACE)
    threads, track = _tracks(run.optional("host", *THREAD), chosen.to_numpy())
    columns = run.optional("host", *_COLUMNS).with_columns(kind=kind, track=track, code=host_names(run))
    frame, threads = _in_order(columns.with_row_index("host_row").filter(chosen), threads)
    nesting = nest(*(frame[name].to_numpy() for name in ("track", "start", "end")))
    calls = frame["kind"].to_physical().to_numpy() >= len(OPERATIONS)
    owner = _owners(nesting.parent, calls)
    return HostTree(frame.drop("code"), threads, nesting, owner, calls, frame["code"])


def _runs(frame: pl.DataFrame) -> Ints:
    """The first row of each run of equal rows."""
    changed = frame.select(pl.any_horizontal(pl.all().ne_missing(pl.all().shift(1)))).to_series().to_numpy().copy()
    changed[:1] = True
    return np.flatnonzero(changed)


def _tracks(rows: pl.DataFrame, chosen: Bools) -> tuple[pl.DataFrame, pl.Series]:
    """The threads of chosen rows in order of the first, with their numbers as `track`; and the number for each row."""
    first = _runs(rows)
    runs = rows[first]
    threads = runs.filter(pl.Series(np.logical_or.reduceat(chosen, first))).unique(maintain_order=True)
    threads = threads.with_columns(track=pl.int_range(pl.len(), dtype=pl.Int64))
    found = runs.join(threads, on=THREAD, how="left", maintain_order="left", nulls_equal=True)
    track = found["track"].fill_null(-1).to_numpy()
    return threads, pl.Series(np.repeat(track, np.diff(first, append=rows.height)))


def _in_order(frame: pl.DataFrame, threads: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows by process and index, and their threads in order of first rows, which are numbered anew."""
    process = threads.select(pl.struct("rank", "pid").rank("dense")).to_series()
    if process.n_unique() > 1 or not frame["index"].is_sorted():
        frame = frame.with_columns(process=process.gather(frame["track"])).sort("process", "index").drop("process")
    known = frame["track"].unique(maintain_order=True)
    if known.equals(threads["track"]):
        return frame, threads
    number = np.full(threads.height, -1, dtype=np.int64)
    number[known.to_numpy()] = np.arange(len(known))
    frame = frame.with_columns(track=pl.Series(number[frame["track"].to_numpy()]))
    return frame, threads[known].with_columns(track=pl.int_range(pl.len(), dtype=pl.Int64))


def _owners(parent: Ints, is_call: Bools) -> Ints:
    owner = parent.copy()
    while True:
        inside_call = (owner >= 0) & is_call[owner]  # of -1 the test reads the last row, which the mask leaves out
        if not inside_call.any():
            return owner
        owner[inside_call] = parent[owner[inside_call]]
