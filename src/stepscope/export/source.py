"""What is drawn from: a trace, what `stepscope run` recorded beside it, or that alone."""

from dataclasses import dataclass

import polars as pl

from stepscope.analyses.input_pipeline.loader_clock import loader_clock
from stepscope.analyses.input_pipeline.loader_stages import RECORD_LOADING
from stepscope.analyses.lib.result_tables import RECORD_TRACE
from stepscope.analyses.lib.wall_clock import Offset, Reading, offset_at
from stepscope.core.errors import MissingData
from stepscope.core.run import Run

__all__ = ["Source"]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """`trace` is a run that was read from one trace, `recorded` what its process recorded; one of them may be None."""

    trace: Run | None
    recorded: Run | None = None

    def traced(self) -> Run:
        """The trace. Raises MissingData where there is none."""
        if self.trace is None:
            raise MissingData("traced window", how=RECORD_TRACE)
        return self.trace

    def beside(self) -> Run:
        """What was recorded beside the trace. Raises MissingData where the trace is of no run folder."""
        if self.recorded is None:
            raise MissingData("spans of the input pipeline", how=RECORD_LOADING)
        return self.recorded

    def window(self) -> tuple[int, int] | None:
        """Begin and end of the trace by its own clock; None without one. Raises MissingData for an empty trace."""
        if self.trace is None:
            return None
        times = self.trace.optional("host", "start", "end")
        if times.is_empty():
            raise MissingData("work of the host in this trace", how=RECORD_TRACE)
        begin, end = times.select(pl.col("start").min(), pl.col("end").max()).row(0)
        return begin, end

    def offset(self) -> Offset:
        """What the clock of the trace reads more than the time line of the recording; without a trace that is its own.

        Raises MissingData where no readings of both clocks are left.
        """
        window = self.window()
        if window is None:
            return Offset(0, 0)
        readings = self._readings(window)
        own = readings.filter(_OF_WINDOW)["time"].to_list()
        at = (min(own) + max(own)) // 2 if own else window[0]
        found = offset_at([Reading(*row) for row in readings.select("time", "offset", "error").iter_rows()], at)
        if found is None:
            raise MissingData("readings of the clocks", how=RECORD_LOADING)
        return found

    def fit(self) -> dict[str, int] | None:
        """How the spans fit the trace, a row of `loader_clock`; None where no wait for a batch is in both."""
        window, recorded = self.window(), self.beside()
        if self.trace is None or window is None:
            return None
        spans = recorded.optional("loader_spans")
        host = self.trace.optional("host", "rank", "name", "start", "end")
        tables = {
            "loader_spans": spans,
            "clock_readings": self._readings(window),
            "host": host.with_columns(rank=pl.lit(spans["rank"][0], pl.Int32)),
        }
        try:
            rows = loader_clock(Run(tables)).filter(pl.col("loader").is_null())
        except MissingData:
            return None
        return next(rows.iter_rows(named=True), None)

    def _readings(self, window: tuple[int, int]) -> pl.DataFrame:
        """Readings of the clocks without those of other windows, whose traces are not at hand."""
        readings, (begin, end) = self.beside().optional("clock_readings"), window
        at = pl.col("time") + pl.col("offset")
        meets = (at.min().over("source") <= end) & (at.max().over("source") >= begin)
        return readings.filter(~_OF_WINDOW | meets)


_OF_WINDOW = pl.col("source").str.starts_with("window")
