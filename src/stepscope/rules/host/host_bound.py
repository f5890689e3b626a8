"""Host code holds the step up.

## What it finds
On a CPU: lines of the script that do other work than the model's for more than 5 % of an average step. Examples are
sleeping, loops of pure Python, writing and flushing files, drawing and formatting. The lines are from samples. A line
inside forward counts only if it calls no operator, or if a trace shows as much time between operators. If no function
explains half of the host's time, the three longest lines are named together.

On a GPU: a device that is idle for more than 20 % of the step. Neither the data wait nor a blocking call explains more
than 10 % of the step. So the host launches too slowly.

## Why it costs time
The CPU that prepares the next operator is busy with other work. Meanwhile the model does not compute.

## What to do
On a CPU: move the line out of the loop, run it every 100th step, or move it to another thread or process. If the line
contains the loop (`trainer.train()`), let the framework save, validate and log less often.

On a GPU: launch fewer and larger kernels, with `torch.compile(model)`, CUDA graphs (`mode="reduce-overhead"`) or a
larger batch.

## How the gain is predicted
For lines: their share of the samples times the mean step, 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the line also slows down what follows it: the model's data leave the caches,
and its threads fall asleep. On a GPU: at most the idle time that nothing else explains, at least half of it, without
what recording costs. The device does no other work in that time, so the step shrinks by the same amount.

## When it is wrong
The profiler slows the host down, with stacks, shapes or memory by a fifth and more. Its cost is estimated from the
trace and taken off the low end of the gain. With half of it taken off, the limits above must still hold. Samples of a
line that holds the GIL while it computes arrive late and count for the next line. A line that waits for another
process looks busy. Framework code is recognized by function names only.
"""

import re
from collections.abc import Iterator

import polars as pl

from stepscope.analyses.bound.lib.device_shares import DeviceIdle, device_idle
from stepscope.analyses.bound.lib.thresholds import LIMIT, UTILIZED
from stepscope.analyses.device.idle_gaps import idle_gaps
from stepscope.analyses.host.lib.host_lines import HostLines, host_lines
from stepscope.analyses.lib.graph_capture import captures
from stepscope.analyses.lib.loop_headers import loop_header
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.framework_settings import framework_advice, framework_title
from stepscope.models.gap_places import gap_places
from stepscope.models.host_lines import MIN_SAMPLES, MIN_TIME, SpreadLines, line_finding, line_groups, spread_lines

__all__ = ["RULE"]

EXPLAINED = 0.5  # of the host's time: named lines with less leave the larger part to be told
_MODULE = "<module>"  # how Python names code outside of functions
FIRST_CALL = 20_000_000  # ns: a thousand times what a launch takes
_LOADS = re.compile(r"(cuda|hip)(Launch|Module|Func|Library|OccupancyMax)")
START = 1_000_000_000  # ns: freeing memory takes milliseconds, making the context of a device takes seconds
_STARTS = re.compile(r"(cuda|hip)(Free|Malloc)$")
MOST_OF_A_LAUNCH = 300_000  # ns: a kernel that waits longer for its launch waits for other work of the host


def check(run: Run) -> Iterator[Finding]:
    if has_gpu(run):
        yield from _idle(run)
    else:
        yield from _lines(run)


def _lines(run: Run) -> Iterator[Finding]:
    told = _collecting(run)
    for group in line_groups(run):
        for rank, time in group.times.items():
            told[rank] = told.get(rank, 0.0) + time
        yield line_finding(group, _title(group.worst, group.step), tuple(_advice(run, group.worst)))
    spread = [
        row for row in spread_lines(run) if row.host >= MIN_TIME and told.get(row.rank, 0.0) < EXPLAINED * row.host
    ]
    if spread:
        worst_spread = max(spread, key=lambda row: row.host / row.step)
        if worst_spread.computes and not run.optional("graph_breaks").is_empty():
            return  # it is compiled, and the rule about graph breaks says what keeps its operators small
        yield _of_spread(worst_spread, tuple(row.rank for row in spread))


def _collecting(run: Run) -> dict[int, float]:
    """Time in the garbage collector in ns per step, of which another rule tells, by rank."""
    means = run.optional("steps", "rank", "gc").group_by("rank").agg(pl.col("gc").fill_null(0).mean())
    return dict(means.iter_rows())


def _of_spread(row: SpreadLines, ranks: tuple[int, ...]) -> Finding:
    """What is said where no one function holds the time: it is never nothing."""
    return Finding(
        title=Title(
            _SMALL_OPERATORS if row.computes else _SEVERAL, (Value(row.host, "ns"), Value(row.host / row.step, "ratio"))
        ),
        cause="scheduling",
        evidence=(
            Evidence(label="host time per step", value=row.host, unit="ns", source="bound", share=row.host / row.step),
            Evidence(label="time in these lines", value=row.time, unit="ns", source="lines"),
        ),
        gain=None
        if row.computes
        else Gain(
            low_ns=int(row.time / 2),
            high_ns=int(row.time),
            step_ns=int(row.step),
            basis="samples of these lines while nothing computes",
            confidence="structural",
        ),
        advice=_IDLE_ADVICE[::2] if row.computes else _SPREAD_ADVICE,
        ranks=ranks,
        where=row.places,
    )


def _title(group: HostLines, step: float) -> Title:
    takes = (Value(group.time, "ns"), Value(group.time / step, "ratio"))
    if group.purpose is not None:
        return framework_title(group.purpose, group.inside, takes[0])
    place = group.places[0]
    text = place.text.split("  #")[0].strip()
    code = text if text and not text.endswith(":") else place.symbol
    if code and code != _MODULE:
        return Title("{} at {} takes {} per step ({})", (code, place, *takes))
    return Title("{} takes {} per step ({})", (place, *takes))


def _advice(run: Run, group: HostLines) -> Iterator[Advice]:
    if group.purpose is not None:
        yield framework_advice(group.purpose, group.inside)
        return
    text = " ".join(place.text for place in group.places)
    if group.holds_loop:
        within = f"inside {group.inside}" if group.inside else "in what it calls or goes over"
        yield Advice(text=f"This line contains the loop, and the time is spent {within}: make that cheaper or rarer")
        yield Advice(text="See the calls below it", code="stepscope show lines RUN --columns all", language="shell")
        return
    if "forward" in group.phases:
        loops = any(loop_header(run, place.file, place.line) for place in group.places)
        yield Advice(text="Replace Python loops over values by operators on whole tensors") if loops else _COMPILE
        return
    if any(word in text for word in (".item()", ".tolist()")):
        yield Advice(text="Compute on the whole tensor instead of on single values, then read the result once")
        return
    named = any(word in text for word in ("save(", "state_dict"))
    if group.saves or (named and group.saves is None):
        yield Advice(text="Copy the state, then write it in a background thread", code=_SAVE)
        return
    if group.places[0].text.split("  #")[0].rstrip().endswith(":"):  # the head of a loop or of a condition
        text = "Run this code every 100th step, or replace Python loops over values by operators on whole tensors"
        yield Advice(text=text, code="if step % 100 == 0:\n    ...  # this code")
        return
    yield Advice(text="Move the line out of the training loop, or run it every 100th step", code=_RARELY)


_RARELY = "if step % 100 == 0:\n    ...  # this line"
_SAVE = """\
saver = concurrent.futures.ThreadPoolExecutor(1)  # once
state = copy.deepcopy(model.state_dict())  # and all else that you save; quick: memory only
saver.submit(torch.save, state, path)"""


def _idle(run: Run) -> Iterator[Finding]:
    rows = () if captures(run) else device_idle(run)
    slow = [
        row for row in rows
        if _idles(row, row.host) or (_idles(row, row.host + row.allocation) and _first_call(run, row))
    ]  # fmt: skip
    if not slow:
        return
    worst = max(slow, key=lambda row: row.host / row.step)
    first = _first_call(run, worst)
    launching = first is None and worst.host <= MOST_OF_A_LAUNCH * worst.kernels
    yield Finding(
        title=_idle_title(worst, first, launching=launching),
        cause="scheduling",
        evidence=_idle_evidence(worst, worst.host + worst.sync + worst.allocation if first else worst.host),
        gain=None if first else _idle_gain(worst),
        advice=_IDLE_ADVICE if launching else _WARM_UP if first else _GAP_ADVICE,
        ranks=tuple(row.rank for row in slow),
        where=_places(run, worst.rank) or tuple(gap_places(run, worst.rank, ("host", "launch"))),
    )


def _idle_gain(row: DeviceIdle) -> Gain:
    return Gain(
        low_ns=int(max(0.0, row.host - row.recording) / 2),
        high_ns=int(row.host),
        step_ns=int(row.step),
        basis="GPU idle time without data wait or blocking calls",
        confidence="structural",
    )


def _idles(row: DeviceIdle, host: float) -> bool:
    """Whether the host lets the device idle, for `host` ns of a step, with half of what recording costs taken off."""
    host, step = host - row.recording / 2, row.step - row.recording / 2
    return row.utilization * row.step < UTILIZED * step and host >= LIMIT * step


def _idle_title(row: DeviceIdle, first: tuple[str, float] | None, *, launching: bool) -> Title:
    if first is not None:
        words = _LOADING if _LOADS.match(first[0]) else "The first {} leaves the GPU idle {}: it initializes the GPU"
        return Title(words, (first[0], Value(first[1], "ns")))
    idle = (Value(row.host, "ns"), Value(row.host / row.step, "ratio"))
    if not launching:
        return Title("Host code leaves the GPU idle {} per step ({})", idle)
    kernel, count = plural(row.kernels, "kernel"), Value(row.kernels, "count")
    return Title(f"Launching {{}} {kernel} per step leaves the GPU idle {{}} ({{}})", (count, *idle))


def _first_call(run: Run, row: DeviceIdle) -> tuple[str, float] | None:
    """The call in the longest gap, if it loads kernels or libraries, or starts the device, for most of the idle time.

    A launch takes microseconds: one that takes longer while the device idles is the first of its kind.
    """
    own = (pl.col("rank") == row.rank) & pl.col("device").eq_missing(row.device)
    gaps = idle_gaps(run).filter(own & pl.col("class").is_in(["host", "launch", "allocation"]))
    for call, gap in gaps.sort("duration", descending=True).select("activity", "duration").head(1).iter_rows():
        least = FIRST_CALL if _LOADS.match(call or "") else START if _STARTS.match(call or "") else None
        if call and least and gap >= least and 2 * gap >= (row.host + row.allocation) * row.steps:
            return call, float(gap)
    return None


def _idle_evidence(row: DeviceIdle, idle: float) -> tuple[Evidence, ...]:
    return (
        Evidence(label="GPU idle, host-bound", value=idle, unit="ns", source="device_time", share=idle / row.step),
        Evidence(label="kernels per step", value=row.kernels, unit="count", source="device"),
        Evidence(label="GPU utilization", value=row.utilization, unit="ratio", source="device_time"),
    )


def _places(run: Run, rank: int) -> tuple[Place, ...]:
    """Lines of the script that surely do something else while the device is idle."""
    try:
        groups = [group for group in host_lines(run, only=rank) if group.rank == rank and group.samples >= MIN_SAMPLES]
    except MissingData:
        return ()
    return groups[0].places if groups else ()


_COMPILE = Advice(text="Compile the model into fewer, larger kernels", code="model = torch.compile(model)")
_LOADING = "The first {} leaves the GPU idle {}: it loads kernels"
_SMALL_OPERATORS = "Python between small operators takes {} per step ({})"
_SEVERAL = "Host code of several lines takes {} per step ({})"
_SPREAD_ADVICE = (
    Advice(text="Replace Python loops over values by operators on tensors, first line first"),
    Advice(text="See all lines, with the calls below them", code="stepscope show lines RUN", language="shell"),
)
_SEE_GAPS = Advice(
    text="See what the host does in the longest gaps", code="stepscope show idle_gaps RUN", language="shell"
)
_WARM_UP = (
    Advice(
        text="Run a few batches before the profiler starts",
        code="for batch in itertools.islice(loader, 3):\n    model(batch)  # then start the profiler",
    ),
    _SEE_GAPS,
)
_GAP_ADVICE = (
    _SEE_GAPS,
    Advice(text="If these are first calls, trace after warm-up: kernels and libraries are loaded once"),
)
_IDLE_ADVICE = (
    _COMPILE,
    Advice(
        text="Replay the launches as one CUDA graph, if shapes are constant",
        code='model = torch.compile(model, mode="reduce-overhead")',
    ),
    Advice(text="Increase the batch size, as far as memory allows"),
)


def example(synth: Synth, fixed: bool) -> None:
    write = 0 if fixed else 40
    length = 60 + write
    for step in range(12):
        start = step * length
        synth.step(step, start, start + length, forward=25, backward=30, optimizer=5)
        for tick in range(write // 10):
            synth.sample(
                step,
                start + 10 * tick,
                10,
                "other",
                "/home/me/train.py",
                51,
                function="main",
                text="total = tally(scores)",
            )
        for tick in range(6):
            synth.sample(
                step, start + write + 10 * tick, 10, "backward", "/home/me/train.py", 40, function="main",
                text="loss.backward()", call="torch/_tensor.py:600 backward", leaf="torch/autograd/graph.py:800 run",
            )  # fmt: skip


RULE = Rule(check=check, example=example)
