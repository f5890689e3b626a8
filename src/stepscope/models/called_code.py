"""Lines of the user's whose calls a rule knows the meaning of."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Advice, Finding, Place, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.host_lines import FOLLOWS, LineGroup, line_finding, line_groups
from stepscope.models.sampled_code import named_lines, sampled_code

__all__ = ["called_code", "called_example"]

SHARE = 0.4  # of a function's time: the rest of a function that parses works on what was parsed


def called_code(
    run: Run, words: str, advice: tuple[Advice, ...], frames: str = "", calls: str = "", follows: float = FOLLOWS
) -> Iterator[Finding]:
    """Findings about host work whose innermost library frame matches `frames`, or whose lines with SHARE of the
    time match `calls`.

    A frame reads `json/encoder.py:258 iterencode`. `words` are of the title and have places for the line, time and
    share; `follows` as in `line_finding`. Not of lines that hold the loop, or of work of a framework, which
    `host-bound` knows; and not with a GPU, which may work meanwhile. Where host work names no function, the lines that
    match `calls` in any phase do. Raises MissingData without samples.
    """
    if has_gpu(run):
        return
    known = [told for group in line_groups(run) if (told := _with_calls_first(group, frames, calls))]
    for group in known:
        worst = group.worst
        figures = (named_lines(worst.places), Value(worst.time, "ns"), Value(worst.time / group.step, "ratio"))
        yield line_finding(group, Title(words, figures), advice, follows)
    if calls and not known:
        yield from sampled_code(run, words, advice, calls, only_host=True)


def _with_calls_first(group: LineGroup, frames: str, calls: str) -> LineGroup | None:
    """The group if it is about such calls: its innermost frame, or lines with SHARE of its time, which then lead."""
    worst = group.worst
    if worst.purpose is not None or worst.holds_loop or worst.saves:
        return None
    if frames and re.search(frames, worst.inside):
        return group
    called = [place for place in worst.places if calls and re.search(calls, place.text.partition("  #")[0])]
    if not called or _share(called) < SHARE * _share(worst.places):
        return None
    places = (*called, *(place for place in worst.places if place not in called))
    return replace(group, worst=replace(worst, places=places))


def _share(places: Sequence[Place]) -> float:
    return sum(place.share or 0.0 for place in places)


def called_example(synth: Synth, fixed: bool, function: str = "main", **called: str) -> None:
    """Steps of 60 ms, and without the fix 40 ms of such calls in line 51, with the columns of a sample."""
    spent = 0 if fixed else 40
    length = 60 + spent
    for step in range(12):
        start = step * length
        synth.step(step, start, start + length, forward=25, backward=30, optimizer=5)
        for tick in range(spent // 10):
            synth.sample(step, start + 10 * tick, 10, "other", "/home/me/train.py", 51, function=function, **called)
        for tick in range(6):
            synth.sample(
                step, start + spent + 10 * tick, 10, "backward", "/home/me/train.py", 40, function="main",
                text="loss.backward()", call="torch/_tensor.py:600 backward", leaf="torch/autograd/graph.py:800 run",
            )  # fmt: skip
