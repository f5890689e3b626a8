"""A collate function takes a large share of data-loading CPU time.

## What it finds
Training waits for data for more than 5 % of its steps, and the workers compute rather than wait. No number of workers
is enough on the available cores. A collate function other than torch's own takes the largest share of data-loading CPU
time, 30 % or more.

## Why it costs time
Collating ready samples copies them once, which is cheap. A slow collate function loops over values in Python, copies
several times, or processes samples.

## What to do
Return tensors or arrays of equal shape from `__getitem__` and stack them, as torch's own collate function does. Pad to
the longest of the batch with one call. Move work on single samples into `__getitem__`.

## How the gain is predicted
The loader is simulated without this function: no replacement saves more. Then with the function 2, 4 and 10 times
faster, as its replacement is not known yet. All are the likeliest values of the simulation.

## When it is wrong
Some collate functions build the batch from indices, such as one that tokenizes texts. That is the right place: the work
itself has to become cheaper.
"""

from collections.abc import Iterator

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.core.finding import Advice, Finding, Rule, Title, Value
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import heaviest, input_stall, part_ceiling, stage_evidence

__all__ = ["RULE"]

MIN_SHARE = 0.3  # of the CPU time of making a batch; stacking tensors takes a tenth or less


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    part = heaviest(found) if found is not None else None
    if found is None or part is None or part.stage != "collate" or part.copies or part.share < MIN_SHARE:
        return
    yield Finding(
        title=Title("{} takes {} of data-loading CPU time", (part.called, Value(part.share, "ratio"))),
        cause="data-reading",
        evidence=stage_evidence(found, part),
        gain=part_ceiling(found, part),
        advice=_ADVICE,
        ranks=found.ranks,
        where=hot_lines(run, found.ranks[0], part.place, part.library),
    )


_ADVICE = (
    Advice(
        text="Return tensors of equal shape from __getitem__, then stack them",
        code="def collate(samples):\n    pictures, labels = zip(*samples)\n"
        "    return torch.stack(pictures), torch.tensor(labels)",
    ),
    Advice(
        text="Pad samples of different lengths with one call",
        code="torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)",
    ),
)


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly with collating; training needs none. The fix is seven times as fast."""
    collating = 5 if fixed else 35
    parts = (("sample", "data.Pictures", 4, 4), ("collate", "data.collate", collating, collating))
    length = 10 if fixed else 20
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=(collating + 5) / length)


RULE = Rule(check=check, example=example, explains="input-bound")
