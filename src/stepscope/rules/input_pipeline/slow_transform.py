"""One transform, decoder or data set takes most of the data-loading CPU time.

## What it finds
Training waits for data for more than 5 % of its steps, and the workers compute rather than wait. No number of workers
is enough on the available cores. And 40 % or more of the data-loading CPU time is in one transform, one decoder, one
reader, or the data set's own `__getitem__`.

## Why it costs time
All CPU time of a step has to fit on the cores. If it does not, a step takes that time divided by the cores. Only less
work makes it shorter.

## What to do
Replace the slow part by a cheaper one. Or do its work on whole batches, on the device, or once before training. Crop
first: work on pixels that are cropped later is wasted.

## How the gain is predicted
The loader is simulated without this part: no replacement saves more. Then with the part 2, 4 and 10 times faster, as
the replacement is not known yet. Ten is what one reached: nominally 20 times faster, it was measured at 10.6. All
are the likeliest values of the simulation.

## When it is wrong
CPU time is charged to the part that triggers it. A picture is decoded when its pixels are first read, and only known
decoders are told apart. Code inside `__getitem__` that is no transform counts for the data set.
"""

from collections.abc import Iterator

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
from stepscope.analyses.lib.loop_headers import loop_header
from stepscope.analyses.lib.sample_work import has_gpu
from stepscope.core.finding import Advice, Finding, Place, Rule, Title, Value, at
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import LoadingStage, heaviest, input_stall, part_ceiling, short, stage_evidence
from stepscope.models.loader_advice import DRAFT, WHOLE_BATCHES

__all__ = ["RULE"]

MIN_SHARE = 0.4  # of the CPU time of making a batch: the part of decoding from which it counts as the reason


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    part = heaviest(found) if found is not None else None
    if found is None or part is None or part.stage not in _STAGES or part.share < MIN_SHARE:
        return
    where = hot_lines(run, found.ranks[0], part.place, part.library)
    yield Finding(
        title=Title("{} takes {} of data-loading CPU time", (part.called, Value(part.share, "ratio"))),
        cause="data-reading",
        evidence=stage_evidence(found, part),
        gain=part_ceiling(found, part),
        advice=_advice(part, gpu=has_gpu(run), in_loop=_is_in_loop(run, where)),
        ranks=found.ranks,
        where=where,
    )


def _is_in_loop(run: Run, where: tuple[Place, ...]) -> bool:
    """Whether the line that takes most is in a loop of the transform."""
    return bool(where) and bool(loop_header(run, where[0].file, where[0].line))


_STAGES = ("transform", "decode", "read", "sample")
_INDEXED = "torch.utils.data.dataset.TensorDataset"  # has no code of the user's, and takes a list of indices


def _advice(part: LoadingStage, *, gpu: bool, in_loop: bool = False) -> tuple[Advice, ...]:
    """What makes a part cheaper, the likeliest first."""
    name, where = short(part.name), at(part.place)
    match part.stage:
        case "decode":
            return (
                Advice(text=f"Decode with a faster library than {name}, and at a smaller size", code=DRAFT),
                Advice(text="Or store the pictures smaller: as large as the largest crop"),
            )
        case "read":
            code = 'np.load(path, mmap_mode="r")'
            return (Advice(text="Store arrays uncompressed, in the type you need, and map them", code=code),)
        case "sample" if part.name == _INDEXED:
            return (Advice(text="Index whole batches instead of single samples", code=WHOLE_BATCHES),)
        case "sample":
            text = (
                f"Replace loops in {part.called}{where} by whole-array or whole-batch operations"
                if in_loop
                else f"Make {part.called} cheaper{where}: whole-array or whole-batch operations, smaller dtypes"
            )
            code = "def __getitems__(self, indices):  # one call per batch\n    return list(work(self.data[indices]))"
            return (Advice(text=text, code=code), _once(part.called))
        case _:
            return _of_transform(name, where, in_loop, gpu=gpu)


def _of_transform(name: str, where: str, in_loop: bool, *, gpu: bool) -> tuple[Advice, ...]:
    batches = f"{_made(name)}for batch, labels in loader:\n    batch = {{}}(batch{{}})"
    called = name.lower() if _made(name) else name if name.isidentifier() else "transform"  # a lambda has no name
    if gpu:
        code = batches.format(called, ".to(device, non_blocking=True)")
        first = Advice(text=f"Run {name}{where} on whole batches on the GPU", code=code)
        return (first, Advice(text=f"Or make {name} cheaper: smaller inputs (crop first), smaller dtypes"), _once(name))
    return (
        Advice(text=f"Replace the loop in {name}{where} by one whole-array call, or repeat it less often")
        if in_loop
        else Advice(text=f"Make {name} cheaper{where}: smaller inputs, whole-array operations, smaller dtypes"),
        Advice(text=f"Or run {name} on whole batches in the training loop", code=batches.format(called, "")),
        _once(name),
    )


def _made(name: str) -> str:
    """The line that makes the transform, where its name is that of a class."""
    return f"{name.lower()} = {name}(...)  # once\n" if name.isidentifier() and name[0].isupper() else ""


def _once(name: str) -> Advice:
    return Advice(
        text=f"Or run {name} once before training and store the result, if it never changes",
        code='np.save(path, work(sample))  # then, in __getitem__: np.load(path, mmap_mode="r")',
    )


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly with one transform; training needs none. The fix is seven times as fast."""
    blur = 5 if fixed else 35
    parts = (("transform", "data.Flip", 2, 2), ("transform", "data.Blur", blur, blur), ("collate", "torch.c", 2, 2))
    length = 10 if fixed else 20
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=(blur + 5) / length)


RULE = Rule(check=check, example=example, explains="input-bound")
