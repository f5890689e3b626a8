"""Putting samples together into a batch takes a large part of making it.

## What it finds
Training waits for batches for more than 5 % of its steps, the workers compute rather than wait, no number of workers
hides it on the cores there are, and a collate function that is not torch's own is the largest part of making a batch
and takes 30 % or more of its CPU time.

## Why it costs time
Putting together samples that are ready is copying them once, which takes little. A collate function that takes long
goes through Python for each value, copies several times, or does work on samples.

## What to do
Return tensors or arrays from `__getitem__`, of equal shapes, and stack them: torch's own collate function does. Pad to
the longest of the batch with one call. Move work on single samples into `__getitem__`.

## How the gain is predicted
The loader is simulated with this function twice and ten times as fast. How much faster a replacement is depends on what
it does now; the range says so, and includes the known errors of the simulation.

## When it is wrong
A collate function that makes the batch out of indices, such as one that tokenises texts, is where the work belongs:
then it is the work itself that has to get cheaper.
"""

from collections.abc import Iterator

from stepscope.analyses._worker_calls import lines_inside
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.waiting_input import faster, gain, heaviest, part_evidence, waiting_input

__all__ = ["RULE"]

MIN_SHARE = 0.3  # of the CPU time of making a batch; stacking tensors takes a tenth or less
FASTER = (2.0, 10.0)  # one copy instead of two, and compiled code instead of Python


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    part = heaviest(found) if found is not None else None
    if found is None or part is None or part.stage != "collate" or part.copies or part.share < MIN_SHARE:
        return
    yield Finding(
        title="Putting samples together takes a large part of making batches",
        cause="data-reading",
        evidence=part_evidence(found, part),
        gain=gain(found, faster((part.name,), FASTER), "collating 2 to 10 times as fast"),
        advice=_ADVICE,
        ranks=found.ranks,
        where=lines_inside(run, found.ranks[0], part.place),
    )


_ADVICE = (
    Advice(
        text="Return tensors of equal shapes from __getitem__ and stack them, without lists of numbers in between",
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
