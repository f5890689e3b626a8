"""The memory events of a run, device by device in order of time, and the operator that each belongs to."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.lib.host_events import THREAD, HostTree, host_tree, is_operator
from stepscope.core.errors import MissingData
from stepscope.core.nesting import innermost, outwards
from stepscope.core.run import Run
from stepscope.core.schema import Column

__all__ = [
    "BY_DEVICE", "DEVICE", "DEVICE_COLUMNS", "DEVICE_TYPES", "RECORD_MEMORY", "Owners", "memory_events",
    "named_device", "owners",
]  # fmt: skip

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DEVICE = ("rank", "device_type", "device")
"""What tells one memory from another."""

RECORD_MEMORY = "record memory in a traced window: `stepscope run --trace 10:13 --with memory -- COMMAND`"
"""How to get memory events."""

DEVICE_TYPES = {
    0: "CPU", 1: "CUDA", 6: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 18: "IPU", 19: "MTIA", 20: "private"
}  # fmt: skip
"""Names of torch's numbers of device types (c10/core/DeviceType.h). Only CPU matters here: it has no pool."""

DEVICE_COLUMNS = (
    Column("rank", pl.Int32, None, "rank of the process"),
    Column("device_type", pl.String, None, "CPU, CUDA, HIP, XPU, …; null: not recorded"),
    Column("device", pl.Int32, None, "index of the device; null: the CPU, or not recorded"),
)
"""The first columns of every table about memory."""

_CPU = 0
_COLUMNS = (
    *THREAD, "index", "time", "device_type", "device", "bytes", "address", "total_allocated", "total_reserved",
    "category", "call_stack",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """For each memory event, rows of `tree.frame`, -1 for none; `tree` is None in a run without host events.

    `around` is the innermost operator or annotation at the time of the event on its thread, `operator` the innermost
    operator. `holders` are all rows that hold an event, and `operators` marks which rows of those are operators.
    """

    tree: HostTree | None
    around: Ints
    operator: Ints
    holders: Ints
    operators: Bools

    def among(self, test: pl.Expr) -> Bools:
        """Which rows of the tree hold an event and pass a test, which so is made for some of millions of rows only."""
        assert self.tree is not None
        return _among(self.tree, self.holders, test)


def memory_events(run: Run) -> pl.DataFrame:
    """Allocations and frees, sorted by DEVICE, time and index; raises MissingData if there are none.

    The columns are those of the memory table but pid and thread, which stay too, and `key`, which numbers the devices;
    `change`, the sum of bytes since the recording of the device began; `level`, total_allocated where the source gives
    it, else `change`; `total`, whether it does. total_reserved is null for the CPU, which has no pool.
    """
    return run.once(_memory_events)


BY_DEVICE = (pl.col("rank"), pl.col("device_type") == "CPU", pl.col("key"))
"""Order of results: by rank and device, as `named_device` shows it, and what is asked for, accelerators, first."""


def named_device() -> list[pl.Expr]:
    """DEVICE as the columns of a result show it."""
    number = pl.col("device_type")
    named = number.replace_strict(DEVICE_TYPES, default=None, return_dtype=pl.String)
    index = pl.when(number.ne_missing(_CPU) & (pl.col("device") >= 0)).then(pl.col("device"))
    other = pl.when(number.is_not_null()).then(pl.format("type {}", number))
    return [pl.coalesce(named, other).alias("device_type"), index.alias("device")]


def owners(run: Run) -> Owners:
    """The operator around each row of `memory_events`, by time on the same thread."""
    return run.once(_owners)


def _memory_events(run: Run) -> pl.DataFrame:
    table = run.optional("memory", *_COLUMNS).filter(pl.col("bytes").is_not_null() & pl.col("time").is_not_null())
    if table.is_empty():
        raise MissingData("memory events", how=RECORD_MEMORY)
    table = table.sort(*DEVICE, "time", "index")
    other = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in DEVICE)
    table = table.with_columns(key=other.cast(pl.Int64).cum_sum()).with_row_index("row")
    total = pl.col("total_allocated").is_not_null().any().over("key")
    table = table.with_columns(
        pl.col("row").cast(pl.Int64),
        total=total,
        change=pl.col("bytes").cum_sum().over("key"),
        total_allocated=pl.col("total_allocated").forward_fill().over("key"),
        total_reserved=pl.when(pl.col("device_type").ne_missing(_CPU)).then("total_reserved"),
    )
    return table.with_columns(level=pl.when(pl.col("total")).then("total_allocated").otherwise("change"))


def _owners(run: Run) -> Owners:
    events = memory_events(run)
    nothing = np.full(events.height, -1, dtype=np.int64)
    try:
        tree = host_tree(run)
    except MissingData:
        return Owners(None, nothing, nothing, nothing[:0], np.empty(0, dtype=np.bool_))
    joined = events.select(THREAD).join(tree.threads, on=THREAD, how="left", maintain_order="left", nulls_equal=True)
    track, time = joined["track"].fill_null(-1).to_numpy(), events["time"].to_numpy()
    tracks_of, start, end = (tree.frame[name].to_numpy() for name in ("track", "start", "end"))
    inside = innermost(tree.nesting, tracks_of, start, end, track, time, time)
    parent = tree.nesting.parent
    around = outwards(parent, inside, ~tree.calls)
    holders = _with_parents(parent, around)
    operators = _among(tree, holders, is_operator())
    return Owners(tree, around, outwards(parent, around, operators), holders, operators)


def _with_parents(parent: Ints, rows: Ints) -> Ints:
    """Some rows and all that hold them, each once; -1 is none."""
    found = [np.empty(0, dtype=np.int64)]
    rows = np.unique(rows[rows >= 0])
    while len(rows):
        found.append(rows)
        rows = np.unique(parent[rows])
        rows = rows[rows >= 0]
    return np.unique(np.concatenate(found))


def _among(tree: HostTree, rows: Ints, test: pl.Expr) -> Bools:
    passed = np.zeros(tree.frame.height, dtype=np.bool_)
    passed[rows] = tree.frame[rows].select(test).to_series().fill_null(False).to_numpy()
    return passed
