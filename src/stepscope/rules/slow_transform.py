"""One transform, decoder or data set takes most of the CPU time of making batches.

## What it finds
Training waits for batches for more than 5 % of its steps, the workers compute rather than wait, no number of workers
hides it on the cores there are, and 40 % or more of the CPU time of making a batch is in one transform, one decoder,
one reader, or the data set's own `__getitem__`.

## Why it costs time
All CPU time of a step has to fit on the cores. Where it does not, steps are as long as that time divided by the cores,
and only less work makes them shorter.

## What to do
Replace that part by a cheaper one, do its work on whole batches, on the device, or once before training. What is left
out for a picture that is cropped afterwards is saved altogether: crop first.

## How the gain is predicted
The loader is simulated with this part twice and ten times as fast: from the least that is worth the trouble to what a
replacement reaches (one nominally twenty times as fast was measured at 10.6 times). The range is as wide as that,
because nobody knows the replacement yet, and includes the known errors of the simulation.

## When it is wrong
CPU time that a part spends on behalf of another is charged to it: a picture is decoded when its pixels are first asked
for, and only known decoders are told apart. Code inside `__getitem__` that is no transform is the data set's own.
"""

from collections.abc import Iterator

from stepscope.analyses._work import has_gpu
from stepscope.analyses._worker_calls import lines_inside
from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.predict.loader_advice import DRAFT
from stepscope.predict.waiting_input import faster, gain, heaviest, part_evidence, waiting_input

__all__ = ["RULE"]

MIN_SHARE = 0.4  # of the CPU time of making a batch: the part of decoding from which it counts as the reason
FASTER = (2.0, 10.0)  # a factor worth the trouble, and what a replacement by compiled code reached


def check(run: Run) -> Iterator[Finding]:
    found = waiting_input(run)
    part = heaviest(found) if found is not None else None
    if found is None or part is None or part.stage not in _ADVICE or part.share < MIN_SHARE:
        return
    yield Finding(
        title=_TITLES[part.stage],
        cause="data-reading",
        evidence=part_evidence(found, part),
        gain=gain(found, faster((part.name,), FASTER), "this part 2 to 10 times as fast"),
        advice=_ON_A_DEVICE if part.stage == "transform" and has_gpu(run) else _ADVICE[part.stage],
        ranks=found.ranks,
        where=lines_inside(run, found.ranks[0], part.place),
    )


_TITLES = {
    "transform": "One transform takes most of the time of making batches",
    "decode": "Decoding takes most of the time of making batches",
    "read": "Parsing files takes most of the time of making batches",
    "sample": "The data set's own code takes most of the time of making batches",
}
_ONCE = Advice(
    text="Or do it once before training, if it gives the same for a sample in each epoch, and store what it gives",
    code='np.save(path, work(sample))  # then, in __getitem__: np.load(path, mmap_mode="r")',
)
_CHEAPER = "whole arrays instead of loops, smaller types, and after cropping, not before"
_ON_A_DEVICE = (
    Advice(
        text="Do this on whole batches on the device",
        code="for batch, labels in loader:\n    batch = transform(batch.to(device, non_blocking=True))",
    ),
    Advice(text=f"Or make it cheaper: {_CHEAPER}"),
    _ONCE,
)
_ADVICE = {
    "transform": (
        Advice(text=f"Make it cheaper: {_CHEAPER}"),
        Advice(
            text="Or do this on whole batches where training happens",
            code="for batch, labels in loader:\n    batch = transform(batch)",
        ),
        _ONCE,
    ),
    "decode": (
        Advice(text="Decode with a faster library, and at the size that is needed", code=DRAFT),
        Advice(text="Or store the pictures smaller: as large as the largest crop"),
    ),
    "read": (
        Advice(
            text="Store arrays as they are needed, uncompressed, and map them",
            code='np.load(path, mmap_mode="r")',
        ),
    ),
    "sample": (
        Advice(
            text="Work on whole arrays instead of loops, or on whole batches",
            code="def __getitems__(self, indices):  # one call for a batch\n    return list(work(self.data[indices]))",
        ),
        _ONCE,
    ),
}


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly with one transform; training needs none. The fix is seven times as fast."""
    blur = 5 if fixed else 35
    parts = (("transform", "data.Flip", 2, 2), ("transform", "data.Blur", blur, blur), ("collate", "torch.c", 2, 2))
    length = 10 if fixed else 20
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=(blur + 5) / length)


RULE = Rule(check=check, example=example, explains="input-bound")
