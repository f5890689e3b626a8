"""Which kinds of work run at the same time: the time of each device by every combination of computing, communicating
and moving memory.

One row is a combination on a device of a rank, such as `compute+communication`; `idle` is none of them. Times are ns
and lengths of sets, so the rows of a device add up to its span in device_time exactly. Definition: the kernel types of
Holistic Trace Analysis with their exclusive and overlapping combinations, with integer nanoseconds and the idle time.
"""

from itertools import product

import numpy as np
import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.lib.result_tables import RANK, parts, table
from stepscope.core.intervals import Spans, intersect, spans, subtract, total, union
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import Column

COLUMNS = (
    RANK,
    Column("device", pl.Int32, None, "index of the device"),
    Column("kinds", pl.String, None, "compute, communication, memory, joined by + where they overlap; or idle"),
    Column("duration", pl.Int64, "ns", "time with all of these and no other"),
    Column("share", pl.Float64, "ratio", "duration / span of the device; null: the span is empty"),
)
_ROLES = ("compute", "communication", "memory")
_NOTHING = np.empty((0, 2), dtype=np.int64)


def compute(run: Run) -> pl.DataFrame:
    """Eight rows for each device with work. Raises MissingData without device work."""
    times = {(row["rank"], row["device"]): row for row in device_time(run).iter_rows(named=True)}
    rows: list[tuple[object, ...]] = []
    for part in parts(device_work(run), "rank", "device"):
        rank, device = part.select("rank", "device").row(0)
        span, idle = times[rank, device]["span"], times[rank, device]["idle"]
        found = [*_combinations(part), ("idle", idle)]
        assert sum(time for _, time in found) == span
        rows += [(rank, device, kinds, time, time / span if span else None) for kinds, time in found]
    return table(rows, COLUMNS).sort("rank", "device", maintain_order=True)


def _combinations(work: pl.DataFrame) -> list[tuple[str, int]]:
    sets = {role: union(spans(work.filter(pl.col("role") == role))) for role in _ROLES}
    found = []
    for chosen in sorted(product((True, False), repeat=len(_ROLES)), key=sum):
        inside = [role for role, use in zip(_ROLES, chosen, strict=True) if use]
        if inside:
            found.append(("+".join(inside), total(_only(sets, inside))))
    return found


def _only(sets: dict[str, Spans], inside: list[str]) -> Spans:
    """The time in all sets of `inside` and in no other."""
    common = sets[inside[0]]
    for role in inside[1:]:
        common = intersect(common, sets[role])
    others = [time for role, time in sets.items() if role not in inside]
    return subtract(common, np.concatenate((*others, _NOTHING)))


ANALYSIS = device_overlap = Analysis(compute=compute, columns=COLUMNS, scope="rank")
