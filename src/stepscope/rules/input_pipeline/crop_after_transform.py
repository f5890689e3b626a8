"""Transforms process whole samples before most of each is cropped away.

## What it finds
Training waits for data for more than 5 % of its steps. A transform that keeps the sample's size (conversion to float,
normalization, color changes) runs before one that keeps half of the sample or less: a crop or a resize. Sizes are from
the first samples of each worker, the order from the recorded batches.

## Why it costs time
Work on pixels that are cropped later is wasted. A crop of 224 × 224 needs a fourth of a 500 × 375 photograph.

## What to do
Crop first, then convert. A transform that crops and resizes at once (`RandomResizedCrop`) belongs directly after
decoding. If decoding takes longer, decode less: Pillow's `Image.draft` decodes JPEGs at a half, a fourth or an eighth
of their size. That is exact enough before a resize to less.

## How the gain is predicted
The loader is simulated with faster early transforms. The factor follows from how much smaller the samples become. Low
end: half of that, as each call has a fixed cost. High end: twice that, as small arrays stay in the caches. The range
includes the known errors of the simulation.

## When it is wrong
Not every transform that keeps the size can move. Rotating or warping reads pixels beyond the crop, and normalizing by a
picture's own mean reads all of them. If sample sizes vary a lot, the first few may not be typical.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.input_pipeline.lib.worker_calls import of_training
from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Evidence, Finding, Rule, Title, Value, at
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.input_stall import (
    InputStall,
    LoadingStage,
    faster,
    gain,
    input_stall,
    pays,
    short,
    stage_evidence,
)
from stepscope.models.loader_advice import DRAFT
from stepscope.models.loader_model import predict

__all__ = ["RULE"]

MOST_LEFT = 0.5  # of a sample behind a crop: with more of it left there is less to win than by most other changes
SAME = 0.1  # relative: numbers in a sample that a transform leaves as many
ORDERED = 0.9  # of the batches in which one transform runs before another: a random order is no order
SHARE = (0.5, 2.0)  # of what samples get smaller, the rest of a transform's time gets less
RECORD_SIZES = "record it again with `stepscope run -- COMMAND`: this run is older"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crop:
    """A transform that hands on the share `left` of what it is given, and the parts before it that keep the size."""

    name: str
    left: float
    before: tuple[LoadingStage, ...]


def check(run: Run) -> Iterator[Finding]:
    found = input_stall(run)
    if found is None or not any(part.stage == "transform" for part in found.parts):
        return
    crop = _crop(run, found)
    if crop is None:
        return
    factors = tuple(1 + (1 / crop.left - 1) * share for share in SHARE)
    changes = faster([part.name for part in crop.before], factors)
    if not pays(found, predict(found.model, changes)[0]):
        return
    first = crop.before[0]
    yield Finding(
        title=Title(
            "{} processes full samples before {} keeps {} of each",
            (first.called, short(crop.name), Value(crop.left, "ratio")),
        ),
        cause="data-reading",
        evidence=(
            *stage_evidence(found, first),
            Evidence(label=f"share kept by {short(crop.name)}", value=crop.left, unit="ratio",
                     source="transform_sizes"),
        ),
        gain=gain(found, changes, f"{short(crop.name)} first"),
        advice=_advice(first, crop),
        ranks=found.ranks,
        where=(first.place,) if first.place else (),
    )  # fmt: skip


def _crop(run: Run, found: InputStall) -> _Crop | None:
    """The crop before which most CPU time is spent on samples of full size."""
    rank = found.model.pipeline.rank
    left = _left(run, rank)
    begins = _beginnings(run, rank)
    crops = []
    for name, share in left.items():
        early = tuple(
            part for part in found.parts
            if part.stage == "transform" and abs(left.get(part.name, 0.0) - 1) <= SAME
            and _precedes(begins, part.name, name)
        )  # fmt: skip
        if share <= MOST_LEFT and early:
            crops.append(_Crop(name=name, left=share, before=early))
    return max(crops, key=lambda crop: sum(part.cpu for part in crop.before) * (1 - crop.left), default=None)


def _left(run: Run, rank: int) -> dict[str, float]:
    """Numbers in a sample after each transform, of those before."""
    sizes = run.table("transform_sizes", how=RECORD_SIZES).filter(of_training(run, rank))
    rows = sizes.group_by("name").agg(pl.col("before", "after").sum()).sort("name")
    return {str(name): after / before for name, before, after in rows.iter_rows()}


def _beginnings(run: Run, rank: int) -> pl.DataFrame:
    """When each transform of a batch began first: a row is a batch, a column a transform."""
    calls = run.table("loader_spans", how=RECORD_SIZES).filter(
        of_training(run, rank) & (pl.col("stage") == "transform")
    )  # fmt: skip
    if calls.is_empty():
        raise MissingData("transforms in the samples of a DataLoader", how=RECORD_SIZES)
    return calls.pivot(on="name", index=["pid", "iterator", "epoch", "batch"], values="start", aggregate_function="min")


def _precedes(begins: pl.DataFrame, early: str, late: str) -> bool:
    if early == late or early not in begins or late not in begins:
        return False
    both = begins.select(pl.col(early) < pl.col(late)).to_series().drop_nulls()
    return len(both) > 0 and float(both.mean() or 0.0) >= ORDERED  # type: ignore[arg-type]


def _advice(first: LoadingStage, crop: _Crop) -> tuple[Advice, ...]:
    names = [name.rpartition(".")[2] for name in (crop.name, *(part.name for part in crop.before))]
    return (
        Advice(
            text=f"Move {names[0]} before {first.name.rpartition('.')[2]}{at(first.place)}: fewer pixels to convert",
            code=f"Compose([{', '.join(f'{name}(...)' for name in names)}])",
        ),
        Advice(
            text="If decoding takes longer than these transforms, decode JPEGs at a smaller size",
            code=DRAFT,
        ),
    )


def example(synth: Synth, fixed: bool) -> None:
    """2 workers fill 2 cores, mostly by converting pictures of which a crop keeps a sixteenth; training needs none."""
    converting = 2.5 if fixed else 38
    early, late = ("transform", "data.Convert", converting, converting), ("transform", "data.Crop", 0.5, 0.5)
    parts = (*((late, early) if fixed else (early, late)), ("collate", "torch.c", 1.5, 1.5))
    length = 10 if fixed else 20.5
    used = (converting + 3) / length
    synth.loading(length=length, own=10, workers=2, cores=2, parts=parts, used=used)
    for name, before, after in (("data.Convert", 1, 1), ("data.Crop", 16, 1)):
        scale = 6912 if fixed or name == "data.Crop" else 110_592
        synth.add("transform_sizes", loader=0, name=name, before=before * scale, after=after * scale)


RULE = Rule(check=check, example=example, explains="input-bound", replaces=("slow-transform", "few-workers"))
