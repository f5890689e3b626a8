"""What ran in a trace, by name: kinds of kernels, kernels, operators, annotations, modules and collectives.

Times are ns and sums: work in parallel counts in full.
"""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.device.kernels import kernels
from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.modules.modules import modules
from stepscope.analyses.operators.operators import operators
from stepscope.analyses.operators.operators_by_shape import operators_by_shape
from stepscope.compare.breakdowns import steps_of_ranks
from stepscope.compare.names import kind_of_kernel, short_name
from stepscope.core.errors import MissingData
from stepscope.core.run import Run, stack

__all__ = ["NamedRows", "Row", "rows_by_name"]

Row = tuple[float, float]
"""Calls and time in ns."""

_COPIES = "copies and memsets"
_NO_MODULE = "outside of modules"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedRows:
    """Sums over all ranks by name: columns name, calls and time (ns).

    `steps` is the number of traced steps that they are of, 0 where none is marked; `ranks` that of the ranks.
    """

    sums: pl.DataFrame
    steps: int
    ranks: int

    def per(self, *, step: bool) -> dict[str, Row]:
        """Calls and time by name, of the mean step of a rank, or of all that was recorded of the mean rank."""
        count = self.steps if step else self.ranks
        return {name: (calls / count, time / count) for name, calls, time in self.sums.iter_rows()}


def rows_by_name(run: Run) -> dict[str, NamedRows]:
    """Listings by what they list; those of which the run holds nothing are left out."""
    makers: dict[str, Callable[[Run], pl.DataFrame]] = {
        "kinds of kernels": _kinds,
        "kernels": _kernels,
        "operators on the device": _on_device,
        "operators on the host": _on_host,
        "operators by shapes, on the device": _shapes_on_device,
        "operators by shapes, on the host": _shapes_on_host,
        "annotations": _annotations,
        "modules by class, on the device": _classes_on_device,
        "modules by class, on the host": _classes_on_host,
        "modules on the device": _modules_on_device,
        "modules on the host": _modules_on_host,
        "collectives": _collectives,
    }
    found = {}
    for what, maker in makers.items():
        try:
            rows = maker(run)
        except MissingData:
            continue
        if rows.height:
            found[what] = _named_rows(run, rows)
    return found


def _named_rows(run: Run, rows: pl.DataFrame) -> NamedRows:
    ranks = rows.select("rank").unique().join(steps_of_ranks(run), on="rank", how="left")["steps"]
    steps = 0 if ranks.null_count() else int(ranks.sum())
    sums = rows.group_by("name").agg(pl.col("calls", "time").sum()).select("name", "calls", "time").sort("name")
    return NamedRows(sums=sums, steps=steps, ranks=len(ranks))


def _kernels(run: Run) -> pl.DataFrame:
    return kernels(run).select("rank", "name", "calls", time="total")


def _kinds(run: Run) -> pl.DataFrame:
    """Kernels by what they compute; copies and sets are a kind of their own."""
    table = kernels(run)
    distinct = table.select("name", "operator").unique()
    kinds = [kind_of_kernel(name, operator) for name, operator in distinct.iter_rows()]
    distinct = distinct.with_columns(kind=pl.Series(kinds, dtype=pl.String))
    named = table.join(distinct, on=["name", "operator"], how="left", nulls_equal=True)
    rows = named.select("rank", "calls", name="kind", time="total")
    return pl.concat([rows.select("rank", "name", "calls", "time"), run.per_rank(_copies, stack)])


def _copies(run: Run) -> pl.DataFrame:
    work = device_work(run).filter(pl.col("role") == "memory")
    sums = work.group_by("rank").agg(calls=pl.len().cast(pl.Int64), time=(pl.col("end") - pl.col("start")).sum())
    return sums.select("rank", pl.lit(_COPIES).alias("name"), "calls", "time")


def _on_device(run: Run) -> pl.DataFrame:
    return _operators(run, "device_self").filter(pl.col("time") > 0)


def _on_host(run: Run) -> pl.DataFrame:
    return _operators(run, "host_self")


def _operators(run: Run, time: str) -> pl.DataFrame:
    return operators(run).select("rank", "name", "calls", time=pl.col(time)).drop_nulls("time")


def _shapes_on_device(run: Run) -> pl.DataFrame:
    return _by_shapes(run, "device_self").filter(pl.col("time") > 0)


def _shapes_on_host(run: Run) -> pl.DataFrame:
    return _by_shapes(run, "host_self")


def _by_shapes(run: Run, time: str) -> pl.DataFrame:
    """Operators by name, with the shapes of their inputs behind it."""
    name = pl.concat_str("name", pl.col("input_dims").fill_null(""), separator=" ").str.strip_chars_end()
    return operators_by_shape(run).select("rank", "calls", name=name, time=pl.col(time)).drop_nulls("time")


def _annotations(run: Run) -> pl.DataFrame:
    """The user's and the framework's own marks on the host, but for those of the steps."""
    return run.per_rank(_annotations_of_rank, stack)


def _annotations_of_rank(run: Run) -> pl.DataFrame:
    host = run.optional("host", "rank", "name", "kind", "start", "end")
    marks = host.filter((pl.col("kind") == "annotation") & ~pl.col("name").str.starts_with("ProfilerStep#"))
    times = (pl.col("end") - pl.col("start")).sum()
    return marks.group_by("rank", "name").agg(calls=pl.len().cast(pl.Int64), time=times).sort("rank", "name")


def _collectives(run: Run) -> pl.DataFrame:
    table = collectives(run).with_columns(name=pl.col("collective").fill_null("not named"))
    return table.group_by("rank", "name").agg(calls=pl.len().cast(pl.Int64), time=pl.col("duration").sum())


def _modules_on_device(run: Run) -> pl.DataFrame:
    return _modules(run, "device_self").filter(pl.col("time") > 0)


def _modules_on_host(run: Run) -> pl.DataFrame:
    return _modules(run, "host_self").filter(pl.col("name") != _NO_MODULE)


def _classes_on_device(run: Run) -> pl.DataFrame:
    return _by_class(_modules_on_device(run))


def _classes_on_host(run: Run) -> pl.DataFrame:
    return _by_class(_modules_on_host(run))


def _by_class(rows: pl.DataFrame) -> pl.DataFrame:
    """Instances of one path of classes together, such as the same part of all layers."""
    names = rows.select("name").unique()
    shorter = names.with_columns(short=pl.Series([short_name(name) for name in names["name"]], dtype=pl.String))
    return rows.join(shorter, on="name", how="left").select("rank", "calls", "time", name="short")


def _modules(run: Run, time: str) -> pl.DataFrame:
    """Instances of modules by their path; what is not forward has its pass behind the path."""
    suffix = pl.when(pl.col("pass") == "forward").then(pl.lit("")).otherwise(pl.concat_str(pl.lit(": "), "pass"))
    name = pl.concat_str(pl.col("module"), suffix.fill_null("")).fill_null(_NO_MODULE)
    table = modules(run).select("rank", "calls", name=name, time=pl.col(time)).drop_nulls("time")
    return table.select("rank", "name", pl.col("calls").fill_null(0), "time")
