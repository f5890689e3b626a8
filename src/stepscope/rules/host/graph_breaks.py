"""torch.compile breaks the graph at lines of the user's own.

## What it finds
Jobs in which torch.compile ended a graph early, at a line of the user's code. What breaks inside a library is left out.

## Why it costs time
Each break splits the compiled code. The parts return to Python between them, cannot be fused across the break, and each
has guards of its own to check.

## What to do
Move printing and logging out of the compiled function. Read values (`.item()`) after it. Replace a condition on a
tensor by `torch.where`. `torch.compile(model, fullgraph=True)` raises an error at the first break.

## How the gain is predicted
It is not: torch records where and why a graph breaks, not the time lost. Compare two runs to see it.

## When it is wrong
A break between two large parts costs little. Breaks are counted over all compilations, also those of the first steps.
A break inside a loop makes torch leave the whole function uncompiled; of that it keeps nothing.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.lib.source_texts import source_line
from stepscope.core.finding import Advice, Evidence, Finding, Place, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["RULE"]

PLACES = 3
_PRINTS = re.compile(r"\b(print|logg?(er|ing)?)\b", re.IGNORECASE)
_READS = re.compile(r"\.item\(|Tensor\.item|\.tolist\(|scalar", re.IGNORECASE)
_BRANCHES = re.compile(r"data.dependent (branching|control flow|jump)|generic_jump|conditional", re.IGNORECASE)
_FULL = Advice(text="See the reason in full", code="TORCH_LOGS=graph_breaks python train.py", language="shell")


def check(run: Run) -> Iterator[Finding]:
    breaks = run.optional("graph_breaks").drop_nulls(["file", "line"])
    if breaks.is_empty():
        return
    lines = breaks.group_by("file", "line", "function", maintain_order=True).agg(
        pl.col("reason").first(), pl.col("count").sum()
    )
    lines = lines.sort("count", "file", "line", descending=[True, False, False])
    places = tuple(_place(run, row) for row in lines.head(PLACES).iter_rows(named=True))
    count = lines.height
    yield Finding(
        title=Title("torch.compile breaks the graph at {}", (places[0],))
        if count == 1
        else Title("torch.compile breaks the graph at {} lines, most often at {}", (Value(count, "count"), places[0])),
        cause="configuration",
        evidence=(
            Evidence(label="graph breaks", value=int(lines["count"].sum()), unit="count", source="graph_breaks"),
            Evidence(label="breaking lines", value=count, unit="count", source="graph_breaks"),
        ),
        gain=None,
        advice=(_advice(f"{places[0].text} {lines.item(0, 'reason')}"), _FULL),
        ranks=tuple(sorted(breaks["rank"].unique())),
        where=places,
    )


def _place(run: Run, row: dict[str, object]) -> Place:
    file, line = str(row["file"]), int(str(row["line"]))
    return Place(file=file, line=line, symbol=str(row["function"] or ""), text=source_line(run, file, line).strip())


def _advice(told: str) -> Advice:
    """By the line and torch's reason."""
    if _PRINTS.search(told):
        return Advice(text="Print or log outside of the compiled function, from what it returns")
    if _READS.search(told):
        return Advice(
            text="Read the value after the compiled function, or let it stay a tensor",
            code="torch._dynamo.config.capture_scalar_outputs = True  # or keep .item() in the graph",
        )
    if _BRANCHES.search(told):
        return Advice(
            text="Replace the condition on a tensor by an operator",
            code="x = torch.where(condition, x, y)",
        )
    return Advice(
        text="Move this line out of the compiled function",
        code="model = torch.compile(model, fullgraph=True)  # raises an error at each break",
    )


def example(synth: Synth, fixed: bool) -> None:
    synth.add("sources", file="/home/me/model.py", line=12, text="    print(hidden.mean())")
    for step in range(12):
        synth.step(step, 100 * step, 100 * step + 100, forward=50, backward=50)
    if not fixed:
        synth.add(
            "graph_breaks", file="/home/me/model.py", line=12, function="forward", count=2,
            reason="Failed to trace builtin operator",
        )  # fmt: skip


RULE = Rule(check=check, example=example)
