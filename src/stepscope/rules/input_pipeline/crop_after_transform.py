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
end: half of that, as each call has a fixed cost. High end: twice that, as small arrays stay in the caches, and 12 % of
the step, as all else in the loader gets faster, too (measured: 11 %). The range includes the known errors of the
simulation.

## When it is wrong
Not every transform that keeps the size can move. Rotating or warping reads pixels beyond the crop, and normalizing by a
picture's own mean reads all of them. A crop of your own may need a tensor: a conversion counts by its name only. If
sample sizes vary a lot, the first few may not be typical.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from stepscope.analyses.input_pipeline.lib.hot_lines import hot_lines
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
NEEDED = re.compile(r"(?i)decode|load|read|open")  # in a name: what makes the picture that a crop is given
CONVERTS = re.compile(r"(?i)(^|[._])(pil)?_?to_?(tensor|image|pil|numpy|array)|from_?numpy|as_?tensor")
CALMER = 0.12  # of the step: smaller arrays leave caches and memory to all else, decoding among it; measured 0.11
TAKES_ALL = "torchvision."  # its crops take a PIL image and a tensor alike, so they may go before a conversion
RECORD_SIZES = "record it again with `stepscope run -- COMMAND`: this run is older"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crop:
    """A transform that hands on the share `left` of what it is given, and the parts that it could go before.

    `before` are the parts directly before it that keep the size, the first to run first; `order` are the names of all
    transforms as they run.
    """

    name: str
    left: float
    before: tuple[LoadingStage, ...]
    order: tuple[str, ...]


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
    first = max(crop.before, key=lambda part: part.cpu)
    yield Finding(
        title=Title(
            "{} processes full samples before {} keeps {} of each",
            (first.called, short(crop.name), Value(crop.left, "ratio")),
        ),
        cause="data-reading",
        evidence=stage_evidence(
            found, first,
            Evidence(label=f"share kept by {short(crop.name)}", value=crop.left, unit="ratio",
                     source="transform_sizes"),
        ),
        gain=gain(found, changes, f"{short(crop.name)} first", CALMER),
        advice=_advice(crop),
        ranks=found.ranks,
        where=hot_lines(run, found.ranks[0], first.place, first.library),
        replaces=("slow-transform", "few-workers"),
    )  # fmt: skip


def _crop(run: Run, found: InputStall) -> _Crop | None:
    """The crop before which most CPU time is spent on samples of full size."""
    rank = found.model.pipeline.rank
    left = _left(run, rank)
    begins = _beginnings(run, rank)
    parts = {part.name: part for part in found.parts if part.stage == "transform"}
    order = _order(begins)
    crops = []
    for name, share in left.items():
        early = _movable(name, order, left, begins) if share <= MOST_LEFT and name in order else ()
        before = tuple(parts[part] for part in early if part in parts)
        if before:
            crops.append(_Crop(name=name, left=share, before=before, order=order))
    return max(crops, key=lambda crop: sum(part.cpu for part in crop.before) * (1 - crop.left), default=None)


def _movable(crop: str, order: tuple[str, ...], left: dict[str, float], begins: pl.DataFrame) -> tuple[str, ...]:
    """The transforms directly before a crop that it could go before, in the order in which they run.

    It stays behind one that changes the size, or has no fixed place, or makes what the crop needs.
    """
    early: list[str] = []
    for name in reversed(order[: order.index(crop)]):
        keeps = abs(left.get(name, 0.0) - 1) <= SAME
        needed = NEEDED.search(short(name)) or (CONVERTS.search(name) and not crop.startswith(TAKES_ALL))
        if needed or not keeps or not _precedes(begins, name, crop):
            break
        early.append(name)
    return tuple(reversed(early))


def _left(run: Run, rank: int) -> dict[str, float]:
    """Numbers in a sample after each transform, of those before."""
    sizes = run.table("transform_sizes", how=RECORD_SIZES).filter(of_training(run, rank))
    rows = sizes.group_by("name").agg(pl.col("before", "after").sum()).sort("name")
    return {str(name): after / before for name, before, after in rows.iter_rows()}


def _beginnings(run: Run, rank: int) -> pl.DataFrame:
    """When each transform of a batch began first: a row is a batch, a column a transform that holds no other."""
    calls = run.table("loader_spans", how=RECORD_SIZES).filter(
        of_training(run, rank) & (pl.col("stage") == "transform")
    )  # fmt: skip
    if calls.is_empty():
        raise MissingData("transforms in the samples of a DataLoader", how=RECORD_SIZES)
    batch = ["pid", "iterator", "epoch", "batch"]
    calls = calls.sort(*batch, "start", -pl.col("end"))
    holds = calls.filter(pl.col("start").shift(-1).over(batch) < pl.col("end"))["name"].unique()
    inner = calls.filter(~pl.col("name").is_in(holds.to_list()))
    return inner.pivot(on="name", index=batch, values="start", aggregate_function="min")


def _order(begins: pl.DataFrame) -> tuple[str, ...]:
    """The transforms in the order in which they run in most batches."""
    names = [name for name in begins.columns if name not in ("pid", "iterator", "epoch", "batch")]
    places = [pl.sum_horizontal(*(pl.col(other) < pl.col(name) for other in names)).alias(name) for name in names]
    mean = begins.select(places).mean().row(0)
    return tuple(name for _, name in sorted(zip(mean, names, strict=True)))


def _precedes(begins: pl.DataFrame, early: str, late: str) -> bool:
    if early == late or early not in begins or late not in begins:
        return False
    both = begins.select(pl.col(early) < pl.col(late)).to_series().drop_nulls()
    return len(both) > 0 and float(both.mean() or 0.0) >= ORDERED  # type: ignore[arg-type]


def _advice(crop: _Crop) -> tuple[Advice, ...]:
    first = crop.before[0]
    rest = [name for name in crop.order if name != crop.name]
    place = rest.index(first.name)
    calls = [f"{_class(name)}(...)" for name in (*rest[:place], crop.name, *rest[place:])]
    return (
        Advice(
            text=f"Move {short(crop.name)} before {short(first.name)}{at(first.place)}: fewer pixels to convert",
            code=f"Compose([{', '.join(calls)}])",
        ),
        Advice(
            text="If decoding takes longer than these transforms, decode JPEGs at a smaller size",
            code=DRAFT,
        ),
    )


def _class(name: str) -> str:
    """A name to write in code: a function without a name goes into torchvision's Lambda."""
    return short(name) if short(name).isidentifier() else "Lambda"


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


RULE = Rule(check=check, example=example, explains="input-bound")
