"""Which lines of the user's contain the training loop, and what runs below such a line.

A line that is on the stack wherever the model computes, be it forward, backward or optimizer, contains the loop:
`trainer.fit(model)`, or a `main()` further out. Nobody can take it out of the loop.
"""

import re
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.lib.framework_purposes import purpose
from stepscope.core.finding import Place

__all__ = ["LoopFrames", "innermost", "loop_frames", "with_purpose"]

NEARLY = 0.9  # of the samples of the model's work: a few fall to other threads' stacks and to warm-up code
PHASES = 2  # of the model, at least: a line of forward alone is below the loop, not around it
_MODEL = ("forward", "backward", "optimizer")
_APART = "\0"  # between frames: no file name holds it
_LOOP = re.compile(r"^\s*(?:async\s+for|for|while)\b")


@dataclass(frozen=True, slots=True)
class LoopFrames:
    """Lines (`file:line function`) and functions (`file function`) that are around nearly all of the model's work."""

    lines: frozenset[str]
    functions: frozenset[str]

    def hold(self, place: Place) -> bool:
        """Whether a line contains the training loop, or is the head of a loop in the function that does."""
        around = f"{place.file}:{place.line} {place.symbol}" in self.lines
        return around or (f"{place.file} {place.symbol}" in self.functions and _LOOP.match(place.text) is not None)


def loop_frames(samples: pl.DataFrame) -> LoopFrames:
    """The frames of one rank's samples that contain the training loop."""
    work = samples.filter(pl.col("phase").is_in(_MODEL))
    own = pl.format("{}:{} {}", "file", "line", pl.col("function").fill_null(""))
    path = pl.coalesce("frames", pl.concat_list(own)).list.join(_APART)
    paths = work.group_by("phase", path.alias("path")).agg(pl.col("weight").sum()).with_row_index("sample")
    paths = paths.with_columns(frame=pl.col("path").str.split(_APART)).explode("frame")
    return LoopFrames(
        lines=_around(paths, int(work["weight"].sum())),
        functions=_around(paths.with_columns(pl.col("frame").str.replace(r":-?\d+ ", " ")), int(work["weight"].sum())),
    )


def _around(paths: pl.DataFrame, whole: int) -> frozenset[str]:
    frames = paths.unique(["sample", "frame"]).group_by("frame").agg(pl.col("weight").sum(), pl.col("phase").n_unique())
    around = frames.filter((pl.col("weight") >= NEARLY * whole) & (pl.col("phase") >= PHASES))
    return frozenset(around["frame"].drop_nulls())


def with_purpose(samples: pl.DataFrame, loop: LoopFrames) -> pl.DataFrame:
    """Add `purpose`, as library frames tell it, to rows of `stacks` whose line contains the loop; null for others."""
    columns = ["call", "between", "leaf"]
    kinds = samples.select(columns).unique(maintain_order=True)
    told = [purpose((call, *(between or ()), leaf)) for call, between, leaf in kinds.iter_rows()]
    kinds = kinds.with_columns(pl.Series("purpose", told, dtype=pl.String))
    told_all = samples.join(kinds, on=columns, how="left", nulls_equal=True, maintain_order="left")
    own = pl.format("{}:{} {}", "file", "line", pl.col("function").fill_null(""))
    return told_all.with_columns(purpose=pl.when(own.is_in(list(loop.lines))).then("purpose"))


def innermost(samples: pl.DataFrame) -> str:
    """The innermost library frame of most samples: of a framework rather than of what it calls; empty without any."""
    frame = pl.coalesce(pl.col("between").list.last(), "call", "leaf")
    weights = samples.group_by(frame.alias("frame")).agg(pl.col("weight").sum()).drop_nulls("frame")
    rows = weights.sort("weight", "frame", descending=[True, False])["frame"]
    return str(rows[0]) if len(rows) else ""
