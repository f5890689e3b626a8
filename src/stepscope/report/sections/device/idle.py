"""Why the devices idle: time by cause with what the host did meanwhile, and the longest gaps with their lines."""

import polars as pl

from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.device.idle import idle
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.lib.result_tables import by_rank
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import MissingData
from stepscope.core.intervals import spans, subtract, total, union
from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.report.sections import excerpt, has_device_work, is_traced

__all__ = ["SECTION"]

_CAUSES = 8  # rows: all causes that matter on one device
_GAPS = 5
_WORTH_A_LOOK = 0.02  # share of a device's span: less idle time than that hides no gain
_CAUSE = {
    "rank": "rank", "device": "device", "class": "cause", "total": "idle", "share": "share of span", "gaps": "gaps",
    "activity": "longest host call", "activity_total": "time in it", "place": "line",
}  # fmt: skip
_CAUSES_IN_WORDS = {
    "data_wait": "data wait", "sync": "synchronization", "host": "host code", "launch": "launch call",
    "latency": "launch latency", "stream": "another stream",
}  # fmt: skip
_GAP = {
    "rank": "rank", "device": "device", "step": "step", "duration": "duration", "class": "cause", "activity":
    "the host was in", "module": "module", "place": "line", "next": "ended by",
}  # fmt: skip


def build(run: Run) -> list[Block]:
    if is_traced(run) and not has_device_work(run):
        return []  # a trace of a job on the CPU: recording it again would show no device either
    worth = pl.col("idle") > _WORTH_A_LOOK * pl.col("span")
    devices = device_time(run).filter(worth).select("rank", "device")
    outside = _outside(run)
    if devices.is_empty():
        return outside
    causes, gaps = (
        table.join(devices, on=["rank", "device"], how="semi", nulls_equal=True).sort(
            by, descending=True, maintain_order=True
        )
        for table, by in ((_placed(idle(run)), "total"), (_placed(idle_gaps(run)), "duration"))
    )
    lone = devices["device"].n_unique() == 1
    return [
        *outside,
        *excerpt("Idle time by cause", idle, causes, _told(causes, _CAUSE, _CAUSES, lone), limit=_CAUSES, name="idle"),
        *excerpt("Longest gaps", idle_gaps, gaps, _told(gaps, _GAP, _GAPS, lone), limit=_GAPS, name="idle_gaps"),
    ]


def _outside(run: Run) -> list[Block]:
    """What of the traced steps lies before the first or after the last device work, and so in none of the gaps."""
    try:
        traced = steps(run).filter(pl.col("clock") == "kineto")
    except MissingData:
        return []
    whole = outside = 0
    for rank, windows in by_rank(traced).items():
        worked = spans(device_time(run).filter(pl.col("rank") == rank), "first_start", "last_end")
        whole += total(union(spans(windows)))
        outside += total(subtract(spans(windows), worked)) if len(worked) else 0
    if outside <= _WORTH_A_LOOK * whole:
        return []
    text = "Gaps exclude {} of the {} in traced steps: the time before the first and after the last device work."
    return [Text(text, (Value(outside, "ns"), Value(whole, "ns")))]


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """With `place`, file:line, and the causes in words."""
    place = pl.concat_str(pl.col("file"), pl.lit(":"), pl.col("line").cast(pl.String))
    return rows.with_columns(pl.col("class").replace(_CAUSES_IN_WORDS), place=place)


def _told(rows: pl.DataFrame, headings: dict[str, str], limit: int, lone: bool) -> dict[str, str]:
    """Headings without a lone device, what was not recorded, and the next kernel where a line is known."""
    silent = {column for column in headings if rows[column].head(limit).is_null().all()}
    silent |= ({"device"} if lone else set()) | ({"next"} if "place" not in silent else set())
    return {column: heading for column, heading in headings.items() if column not in silent}


SECTION = Section(title="Idle device time", order=75, group="idle", build=build)
