"""The operators that take most of the traced steps: by device time where there is any, else by host time."""

import polars as pl

from stepscope.analyses.operators.operators import operators
from stepscope.core.report import Block, Section
from stepscope.core.run import Run
from stepscope.report.sections import excerpt, sums

__all__ = ["SECTION"]

_SHOWN = 10
_HOST = {"rank": "rank", "name": "operator", "calls": "calls", "host_self": "host self", "host_total": "host total"}
_DEVICE = {"device_self": "device self", "device_total": "device total", "tensor_core_share": "Tensor Cores"}


def build(run: Run) -> list[Block]:
    table = operators(run)
    on_device = bool((table["device_self"].fill_null(0) > 0).any())
    table = table.sort(
        "device_self" if on_device else "host_self", descending=True, nulls_last=True, maintain_order=True
    )
    if on_device:  # a share of 0 matters where matrices are multiplied only
        share = pl.when("tensor_core_eligible").then("tensor_core_share")
        table = table.with_columns(tensor_core_share=share)
    headings = {**_HOST, **_DEVICE} if on_device else _HOST
    return [*sums(run), *excerpt("", operators, table, headings, limit=_SHOWN, name="operators")]


SECTION = Section(title="Operators", order=80, group="operators", build=build)
