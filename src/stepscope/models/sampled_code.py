"""Lines of the user's that a pattern tells to be host work, wherever in a step samples meet them.

What torch calls forward begins where the last step ended, so that lines behind `optimizer.step()` may lie in it.
Samples there do not tell Python from operators; the code of the line does.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from stepscope.analyses.host.lib.host_lines import HostLines
from stepscope.analyses.lib.line_places import STEP, line_place
from stepscope.analyses.lib.loop_headers import loop_header
from stepscope.analyses.lib.sample_work import gpu_ranks
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.analyses.steps.lib.samples import bounds, steady_samples
from stepscope.core.finding import Advice, Finding, Place, Title, Value, base_name
from stepscope.core.run import Run, stack
from stepscope.models.host_lines import MIN_SAMPLES, MIN_SHARE, MIN_TIME, SURE_SHARE, LineGroup, line_finding

__all__ = ["named_lines", "sampled_code"]

PLACES = 3
_LINE = ("file", "line", "function", "text")


class _Patterns(NamedTuple):
    calls: str
    loops: str
    functions: str
    only_host: bool


def sampled_code(
    run: Run,
    words: str,
    advice: tuple[Advice, ...],
    calls: str = "",
    loops: str = "",
    functions: str = "",
    *,
    only_host: bool = False,
) -> Iterator[Finding]:
    """One finding about the lines that match `calls`, that are in a loop whose head matches `loops`, or in a function
    whose whole name matches `functions`, on all ranks.

    `words` are of the title and have places for the line, time and share. Ranks with a GPU are left out: it may work
    meanwhile. `only_host` leaves out samples in which the model was called. Raises MissingData without samples.
    """
    means = enough_steps(run).group_by("rank").agg(pl.col("duration").mean())
    steps = {rank: step for rank, step in means.iter_rows() if rank not in gpu_ranks(run)}
    found = {
        rank: row
        for rank, step in steps.items()
        if (row := _of_rank(run, rank, step, _Patterns(calls, loops, functions, only_host)))
    }
    if not found:
        return
    worst = max(found.values(), key=lambda row: row.time / steps[row.rank])
    times = {rank: row.time for rank, row in sorted(found.items())}
    figures = (named_lines(worst.places), Value(worst.time, "ns"), Value(worst.time / steps[worst.rank], "ratio"))
    yield line_finding(LineGroup(worst=worst, step=steps[worst.rank], times=times), Title(words, figures), advice)


def named_lines(places: tuple[Place, ...]) -> str | Place:
    """The line, or `train.py:12, 13, 14` where the time is in several of one file."""
    first, *others = places
    same = sorted({place.line for place in places if place.file == first.file})
    if not others or len(same) == 1:
        return first
    return f"{base_name(first)}:{', '.join(map(str, same))}"


def _of_rank(run: Run, rank: int, step: float, patterns: _Patterns) -> HostLines | None:
    lines = run.per_rank(_lines, stack).filter(rank=rank)
    if lines.is_empty():
        return None
    whole, count = (int(lines[name][0]) for name in ("whole", "samples"))
    lines = lines.filter(~pl.col("model")) if patterns.only_host else lines
    own = lines.filter(
        pl.Series([_matches(run, row, patterns) for row in lines.iter_rows(named=True)], dtype=pl.Boolean)
    )
    share = float(own["weight"].sum()) / max(whole, 1)
    ends = bounds(pl.lit(share), pl.lit(float(max(count, 1))))
    low, high = pl.select(low=ends[0], high=ends[1]).row(0)
    if own["len"].sum() < MIN_SAMPLES or share < max(MIN_SHARE, MIN_TIME / step) or low < SURE_SHARE:
        return None
    each = own.group_by(_LINE).agg(pl.col("weight").sum())
    longest = each.sort("weight", "file", "line", descending=[True, False, False]).head(PLACES)
    return HostLines(
        rank=rank,
        phases=tuple(own["phase"].drop_nulls().unique().sort()),
        time=share * step,
        low=low * step,
        high=high * step,
        samples=int(own["len"].sum()),
        places=tuple(line_place(row, row["weight"] / whole, STEP) for row in longest.iter_rows(named=True)),
        saves=None,
        purpose=None,
        inside="",
        holds_loop=False,
    )


def _lines(run: Run) -> pl.DataFrame:
    """Weight and number of the samples of each line by phase, outside of the data wait; `model`: it was called there.
    `whole` and `samples` are weight and number of all of the rank."""
    every = steady_samples(run).with_columns(
        whole=pl.col("weight").sum().over("rank"), samples=pl.len().over("rank"), model=pl.col("work") == "model"
    )
    placed = every.filter((pl.col("phase") != "data_wait") & ~pl.col("collector")).drop_nulls(["file", "line"])
    keys = ["rank", *_LINE, "phase", "model", "whole", "samples"]
    return placed.group_by(keys, maintain_order=True).agg(pl.col("weight").sum(), pl.len())


def _matches(run: Run, row: dict[str, object], patterns: _Patterns) -> bool:
    text, function, file, line = row["text"], row["function"], row["file"], row["line"]
    code = text.partition("  #")[0] if isinstance(text, str) else ""
    if patterns.calls and re.search(patterns.calls, code):
        return True
    if patterns.functions and isinstance(function, str) and re.fullmatch(patterns.functions, function):
        return True
    return bool(patterns.loops) and re.search(patterns.loops, loop_header(run, str(file), int(str(line)))) is not None
