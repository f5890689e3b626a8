"""The kernels that take most device time, and the operator that launches each."""

import polars as pl

from stepscope.analyses.device.kernels import kernels
from stepscope.core.report import Block, Section
from stepscope.core.run import Run
from stepscope.report.sections import excerpt, has_device_work, is_traced, sums

__all__ = ["SECTION"]

_SHOWN = 10
_HEADINGS = {
    "rank": "rank", "name": "kernel", "operator": "launched by", "calls": "calls", "total": "total",
    "blocks_per_sm": "mean blocks/SM", "occupancy": "mean occupancy (est.)", "tensor_cores": "Tensor Cores",
}  # fmt: skip


def build(run: Run) -> list[Block]:
    if is_traced(run) and not has_device_work(run):
        return []  # a trace of a job on the CPU: recording it again would show no kernels either
    table = _known(run, kernels(run)).sort("total", descending=True, maintain_order=True)
    return [*sums(run), *excerpt("", kernels, table, _HEADINGS, limit=_SHOWN, name="kernels")]


def _known(run: Run, table: pl.DataFrame) -> pl.DataFrame:
    """Of a device without a name nobody knows whether it has tensor cores: there only a kernel's name may say yes."""
    named = run.optional("devices", "rank", "device", "name").drop_nulls("name").select("rank", "device").unique()
    named = named.with_columns(named=True)
    table = table.join(named, on=["rank", "device"], how="left", nulls_equal=True, maintain_order="left")
    return table.with_columns(tensor_cores=pl.when(pl.col("named") | pl.col("tensor_cores")).then("tensor_cores"))


SECTION = Section(title="Kernels", order=90, group="kernels", build=build)
