"""Every so many steps, one takes far longer: a checkpoint, a validation, a report.

## What it finds
Long steps at a regular distance. Their time outside forward, backward and optimizer, or else in forward and optimizer,
exceeds the median by at least half a step. Together they take more than 5 % of the training time. The line is one that
runs in these steps only. Steps that use a loader which does not train are named as validation.

## Why it costs time
Training stands still while the script writes, validates or draws. A median step does not show it, the mean does.

## What to do
Checkpoints: copy the state and write it in another process (`torch.distributed.checkpoint.async_save`) or thread, or
save less often. Validation: less often, on a part of the data, with a larger batch, under `torch.inference_mode()`.
Reports and figures: hand them to another process.

## How the gain is predicted
The time above the median step, averaged over all steps: 0.6 times of it, as when the work is done half as often, to
1.2 times, as the steps after it are slower, too. Measured with a checkpoint that left the loop: 1.03 to 1.14 times.

## When it is wrong
Steps whose length varies with the data (long sequences) may look like stalls for a while. A garbage collection in the
middle of a step, a neighbor on the machine that wakes up every minute, or a file system that flushes produce regular
long steps without any line. A checkpoint is told by the library call below your line (`torch.save`, `pickle.dump`,
Lightning's `save_checkpoint`, transformers' `save_pretrained` and their like), else by the names in it. Steps that
begin an epoch and in which a loader starts new workers are left out where no line tells of anything else.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from stepscope.analyses.input_pipeline.lib.worker_starts import restarting_steps
from stepscope.analyses.steps.lib.enough_steps import enough_steps
from stepscope.analyses.steps.lib.stall_groups import StallGroup, stall_groups
from stepscope.core.finding import Advice, Evidence, Finding, Gain, Place, Rule, Title, Value
from stepscope.core.plural import plural
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.framework_settings import framework_advice, framework_title

__all__ = ["RULE"]

SAVED = (0.6, 1.2)  # of the time above the median: steps after a stall are slower, too; measured 1.03 to 1.14
MIN_SHARE = 0.05  # of the mean step: a smaller gain drowns in the noise between two runs


def check(run: Run) -> Iterator[Finding]:
    found = stall_groups(run)
    means = enough_steps(run).group_by("rank").agg(pl.col("duration").mean(), pl.len())
    per_rank = {rank: (step, count) for rank, step, count in means.iter_rows()}
    same: dict[tuple[str, str, int], list[StallGroup]] = {}
    for group in found:
        if group.cause == "unknown" and restarting_steps(run, group.rank).issuperset(group.steps):
            continue  # workers end and start: what that costs is told from the waits
        step, count = per_rank.get(group.rank, (0.0, 0))
        if group.certain and count and group.excess / count >= MIN_SHARE * step:
            place = group.places[0] if group.places else None
            same.setdefault((group.cause, place.file if place else "", place.line if place else 0), []).append(group)
    for groups in same.values():
        worst = max(groups, key=lambda group: group.excess / per_rank[group.rank][1])
        yield _finding(worst, *per_rank[worst.rank], ranks=[group.rank for group in groups])


def _finding(group: StallGroup, step: float, count: int, *, ranks: Sequence[int]) -> Finding:
    excess = group.excess / count
    text = " ".join(place.text + place.symbol for place in group.places)
    return Finding(
        title=_title(group, text, excess / step),
        cause="scheduling",
        evidence=(
            Evidence(label="stall time per step", value=excess, unit="ns", source="stalls", share=excess / step),
            Evidence(
                label="stall length",
                value=group.excess / len(group.steps),
                unit="ns",
                source="stalls",
                step=group.steps[len(group.steps) // 2],
            ),
            Evidence(label="steps between stalls", value=group.distance, unit="count", source="stalls"),
            Evidence(label="stalls", value=group.count, unit="count", source="stalls"),
        ),
        gain=Gain(
            low_ns=int(SAVED[0] * excess),
            high_ns=int(min(SAVED[1] * excess, step)),
            step_ns=int(step),
            basis="time of stalls above the median step, and of slower steps after them",
            confidence="structural",
        ),
        advice=tuple(_advice(group, text)),
        ranks=tuple(sorted(ranks)),
        where=group.places or (group.caller if group.purpose is not None else ()),
    )


def _title(group: StallGroup, text: str, share: float) -> Title:
    each, stall = Value(group.distance, "count"), Value(group.excess / len(group.steps), "ns")
    if group.purpose is not None and not group.places:
        return framework_title(group.purpose, group.inside, Value(group.excess / len(group.steps), "ns"), each)
    if group.cause == "evaluation":
        who: str | Place = "Validation"
    elif _saves(group, text):
        who = "Saving a checkpoint"
    else:
        who = group.places[0] if group.places else "A stall"
    return Title(
        f"{{}} takes {{}} every {{}} {plural(each.value, 'step')} ({{}} of training)",
        (who, stall, each, Value(share, "ratio")),
    )


def _advice(group: StallGroup, text: str) -> Iterator[Advice]:
    if group.purpose is not None and not group.places:  # no line of the user's enters it
        yield framework_advice(group.purpose, group.inside)
    elif group.cause == "evaluation":
        yield Advice(text="Validate less often, or on a part of the data")
        yield Advice(text="Validate without building a graph, with a larger batch", code=_VALIDATE)
    elif _saves(group, text):
        yield Advice(text="Copy the state, then write it in a background thread", code=_SAVE)
        yield Advice(text="Or save less often")
    else:
        yield Advice(text="Do this less often, or in a background thread", code=_THREAD)


def _saves(group: StallGroup, text: str) -> bool:
    """What the library calls tell; the user's own names only where those tell nothing."""
    named = any(word in text for word in ("save(", "save_", "checkpoint", "ckpt", "state_dict"))
    return named if group.saves is None else group.saves


_VALIDATE = """\
model.eval()
with torch.inference_mode():
    for inputs, targets in validation_loader:  # DataLoader(..., batch_size=4 * batch_size)
        ...
model.train()"""
_SAVE = """\
saver = concurrent.futures.ThreadPoolExecutor(1)  # once
state = copy.deepcopy(model.state_dict())  # and all else that you save; quick: memory only
saver.submit(torch.save, state, path)"""
_THREAD = """\
worker = concurrent.futures.ThreadPoolExecutor(1)  # once
worker.submit(report, values)  # in the loop"""


def example(synth: Synth, fixed: bool) -> None:
    clock = 0
    for step in range(44):
        stall = 200 if step % 10 == 9 and not fixed else 0
        synth.step(step, clock, clock + 50 + stall, forward=20, backward=25, optimizer=5)
        for tick in range(5):
            synth.sample(
                step, clock + 10 * tick, 10, "backward", "/home/me/train.py", 40, function="main",
                text="loss.backward()", call="torch/_tensor.py:600 backward", leaf="torch/autograd/graph.py:800 run",
            )  # fmt: skip
        for tick in range(stall // 40):
            synth.sample(
                step, clock + 50 + 40 * tick, 40, "other", "/home/me/train.py", 44, function="main",
                text="torch.save(model.state_dict(), path)", call="torch/serialization.py:900 save",
            )  # fmt: skip
        clock += 50 + stall


RULE = Rule(check=check, example=example)
