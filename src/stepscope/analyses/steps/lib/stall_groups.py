"""Steps that take far longer than the others, grouped by what makes them long.

What counts is the time outside forward, backward and optimizer, where checkpoints, validation and reports are, and, on
its own, forward with the optimizer. A long wait belongs to the loader, and a long backward on one rank of many is that
rank waiting for another. A step is long if such a part exceeds its median by half a median step.

The place of a stall is a line that runs in the long steps and not, or hardly, in the others: on the path from the
script down to the sampled line, the first frame that ordinary steps lack is where the stall is entered, and the line
that most samples below it agree on is where the time goes. Whether it writes a checkpoint, the library calls below
these lines tell (see `checkpoint_saving`), also where a framework calls and no line of the user's enters the stall.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from stepscope.analyses.lib.checkpoint_saving import saves
from stepscope.analyses.lib.framework_purposes import purpose, telling
from stepscope.analyses.lib.sample_work import with_work
from stepscope.analyses.steps.lib.samples import steady_samples
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import weight_of
from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run, chain

__all__ = ["StallGroup", "stall_groups"]

LONG = 0.5  # of a median step more than usual: on a machine that only trains, no part of a step jitters as much
LONG_SPREADS = 5  # and this many median deviations more, where steps vary by themselves (sequence lengths)
PARTS = (("other",), ("forward", "optimizer"))  # parts of a step that are looked at, each on its own
NOT_A_STALL = {PARTS[0]: ("input",), PARTS[1]: ("input", "model")}  # work that names no line of a stall there
RARE = 0.34  # of all steps: what happens every second or third step is a part of the work, not a stall
REGULAR = 0.8  # of the distances must agree: one stall may hide among the steps that were left out
REPEATS = 3  # long steps that show a distance twice
REPEATS_WITH_CAUSE = 2  # enough when a tag or a line says that it was the same thing both times
USUAL = 0.05  # of the time of ordinary steps below a frame: it is on the way of every step, so it starts no stall
MIN_SAMPLES = 3  # fewer samples of a stall name no line
AGREE = 0.6  # of the samples below the entry name the line

_FRAME = re.compile(r"(.*):(-?\d{1,9}) ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StallGroup:
    """Long steps of one rank with one cause.

    `steps` are those that were recorded apart, each stands for `weight` of them.
    `cause` is "evaluation", "line" or "unknown"; `distance` the median number of steps between two of them;
    `excess` the time in ns that all of them together take above the median; `regular` whether the distances agree;
    `saves` whether they write a checkpoint, None if no sample tells. `purpose` is what a framework is at in them (see
    `framework_purposes`), None where nothing tells, and `inside` its function that tells so. `caller` is
    the line of the user's in which that is, for stalls without places.
    """

    rank: int
    cause: str
    steps: tuple[int, ...]
    distance: float
    regular: bool
    excess: int
    places: tuple[Place, ...]
    saves: bool | None
    purpose: str | None
    inside: str
    caller: tuple[Place, ...] = ()
    weight: int = 1

    @property
    def count(self) -> int:
        """The number of long steps."""
        return len(self.steps) * self.weight

    @property
    def certain(self) -> bool:
        """True if the steps are long for one reason: at a regular distance, or with the same tag or line."""
        repeats = REPEATS_WITH_CAUSE if self.cause != "unknown" else REPEATS
        return len(self.steps) >= repeats and (self.regular or self.cause == "evaluation")


@dataclass(frozen=True, slots=True)
class _Sample:
    step: int
    weight: int
    path: tuple[str, ...]
    texts: tuple[str | None, ...]
    work: str
    call: str | None
    leaf: str | None
    expression: str | None
    between: list[str] | None


def stall_groups(run: Run) -> tuple[StallGroup, ...]:
    """Groups of long steady steps, certain or not, for each rank. Raises MissingData without steps."""
    return run.per_rank(_stall_groups, chain)


def _stall_groups(run: Run) -> tuple[StallGroup, ...]:
    try:
        samples = steady_samples(run)
    except MissingData:
        samples = with_work(run.optional("stacks").clear(), gpu=())  # the steps are known, their lines are not
    groups: list[StallGroup] = []
    for (rank,), table in steady_steps(run).sort("rank", "step").group_by("rank", maintain_order=True):
        own = samples.filter(pl.col("rank") == rank)
        known: set[int] = set()
        for part in PARTS:
            left = table.filter(~pl.col("step").is_in(list(known)))
            found = _groups_of_part(int(str(rank)), left, part, own)
            known |= {step for group in found if group.certain for step in group.steps}
            groups += found
    return tuple(groups)


def _groups_of_part(rank: int, table: pl.DataFrame, part: tuple[str, ...], samples: pl.DataFrame) -> list[StallGroup]:
    evaluation = pl.col("tags").list.contains("evaluation").fill_null(False)
    table = table.select(
        "step", "duration", "weight", pl.sum_horizontal(part).alias("part"), evaluation.alias("evaluation")
    )
    plain = table.filter(~pl.col("evaluation"))
    if plain.height < REPEATS:
        return []
    usual, step = _median(plain["part"]), _median(plain["duration"])
    spread = _median((plain["part"] - usual).abs())
    excess = pl.col("part") - usual
    long = (excess > LONG * step) & (excess > LONG_SPREADS * spread)
    table = table.with_columns(excess.alias("excess"), long.alias("long"))
    stalled = table.filter("long")
    if stalled.is_empty() or stalled.height > RARE * table.height:
        return []
    evaluating, others = stalled.filter("evaluation"), stalled.filter(~pl.col("evaluation"))
    ordinary = _ordinary(table, samples)
    groups = []
    if evaluating.height:
        met = _within(samples, evaluating)
        entries = _entries(met, ordinary) if _most_enter(met, evaluating, ordinary) else []
        groups += [_group(rank, "evaluation", evaluating, entries, _samples_of(entries) or met)]
    if others.height:
        own = samples.filter(pl.col("phase").is_in(part) & ~pl.col("work").is_in(NOT_A_STALL[part]))
        groups += _by_line(rank, others, _within(own, others), ordinary)
    return groups


def _most_enter(samples: list[_Sample], stalled: pl.DataFrame, ordinary: dict[str, float]) -> bool:
    """Whether lines that only these steps run hold most of what they take above others: else a framework runs them."""
    entered, sampled = (sum(one.weight for one in some) for some in (_samples_of(_entries(samples, ordinary)), samples))
    return 2 * entered * int(stalled["duration"].sum()) >= sampled * int(stalled["excess"].sum())


def _by_line(rank: int, long: pl.DataFrame, samples: list[_Sample], ordinary: dict[str, float]) -> list[StallGroup]:
    """One group if all long steps keep one distance, else one for each line that the samples enter the stall by."""
    entries = _entries(samples, ordinary)
    together = _group(rank, "line", long, entries, _samples_of(entries) or samples)
    if together.regular:
        return [together]
    label: dict[int, str] = {}
    for sample, entry in sorted(entries, key=lambda pair: pair[0].weight):
        label[sample.step] = entry  # the heaviest sample of a step comes last and names it
    groups = []
    for name, _ in Counter(label.values()).most_common():
        steps = [step for step, entry in label.items() if entry == name]
        own = [(sample, entry) for sample, entry in entries if entry == name]
        groups.append(_group(rank, "line", long.filter(pl.col("step").is_in(steps)), own, _samples_of(own)))
    return groups if any(group.certain for group in groups) else [together]


def _group(
    rank: int, cause: str, long: pl.DataFrame, entries: list[tuple[_Sample, str]], samples: list[_Sample]
) -> StallGroup:
    steps = tuple(long["step"].to_list())
    distances = [after - before for before, after in pairwise(steps)]
    places = _places(entries, entry_first=cause == "evaluation")
    weight = weight_of(long)
    return StallGroup(
        rank=rank,
        cause=cause if cause == "evaluation" or places else "unknown",
        steps=steps,
        distance=float(_median(pl.Series(distances))) / weight if distances else 0.0,
        regular=_regular(distances),
        excess=int(long["excess"].sum()),
        places=places,
        saves=saves((sample.weight, sample.call, sample.leaf, sample.expression) for sample in samples),
        purpose=_most((purpose(_library(sample)), sample.weight) for sample in samples),
        inside=_most((telling(_library(sample)), sample.weight) for sample in samples) or "",
        caller=() if places else _caller(samples),
        weight=weight,
    )


def _library(sample: _Sample) -> tuple[str | None, ...]:
    """The library frames of a sample, outermost first; the last is the leaf, that before it the innermost of them."""
    return (sample.call, *(sample.between or ()), sample.leaf)


def _most(told: Iterable[tuple[str | None, int]]) -> str | None:
    """What most of the time tells; None where nothing does."""
    pairs = list(told)
    weights = _weights((name, weight) for name, weight in pairs if name)
    return weights[0][0] if weights and 2 * weights[0][1] >= sum(weight for _, weight in pairs) else None


def _regular(distances: Sequence[int]) -> bool:
    """True if most distances are one number or multiples of it: stalls in steps that were left out are missing."""
    if len(distances) < REPEATS_WITH_CAUSE - 1:
        return False
    base = Counter(distances).most_common(1)[0][0]
    slack = max(1.0, 0.1 * base)
    near = sum(abs(d - base) <= slack for d in distances)
    multiple = sum(d >= base > 0 and min(d % base, base - d % base) <= slack for d in distances)
    return base >= REPEATS and near >= 0.6 * len(distances) and multiple >= REGULAR * len(distances)


def _places(entries: list[tuple[_Sample, str]], *, entry_first: bool) -> tuple[Place, ...]:
    """Where the time goes, and where the stall is entered if that is another line."""
    if len(entries) < MIN_SAMPLES:
        return ()
    entry = _weights((entry, sample.weight) for sample, entry in entries)[0][0]
    below = [sample for sample, name in entries if name == entry]
    texts = {frame: text for sample in below for frame, text in zip(sample.path, sample.texts, strict=True) if text}
    line, weight = _weights((sample.path[-1], sample.weight) for sample in below)[0]
    computes = entry_first and any(sample.work == "model" for sample in below if sample.path[-1] == line)
    named = [entry]
    if line != entry and not computes and weight >= AGREE * sum(sample.weight for sample in below):
        named = [entry, line] if entry_first else [line, entry]
    return tuple(_place(frame, texts.get(frame, "")) for frame in named)


def _caller(samples: list[_Sample]) -> tuple[Place, ...]:
    """The user's line that most of the time is in, where a framework holds the loop."""
    frame = _most((sample.path[-1], sample.weight) for sample in samples)
    texts = [sample.texts[-1] for sample in samples if sample.path[-1] == frame]
    return (_place(frame, next(filter(None, texts), "")),) if frame else ()


def _entries(samples: list[_Sample], ordinary: dict[str, float]) -> list[tuple[_Sample, str]]:
    """Samples with the first frame of their path that belongs to the stall; those of ordinary work are left out."""
    found = ((s, next((frame for frame in s.path if ordinary.get(frame, 0.0) < USUAL), None)) for s in samples)
    return [(sample, entry) for sample, entry in found if entry is not None]


def _samples_of(entries: list[tuple[_Sample, str]]) -> list[_Sample]:
    return [sample for sample, _ in entries]


def _ordinary(table: pl.DataFrame, samples: pl.DataFrame) -> dict[str, float]:
    """Share of the time of ordinary steps that is spent below each frame, in whatever part of the step."""
    found = _within(samples, table.filter(~pl.col("long") & ~pl.col("evaluation")))
    weights = _weights((frame, sample.weight) for sample in found for frame in set(sample.path))
    whole = sum(sample.weight for sample in found)
    return {frame: weight / whole for frame, weight in weights}


def _within(samples: pl.DataFrame, steps: pl.DataFrame) -> list[_Sample]:
    chosen = samples.join(steps, on="step", how="semi").filter(pl.col("file").is_not_null())
    own = pl.format("{}:{} {}", "file", "line", pl.col("function").fill_null(""))
    path = pl.coalesce("frames", pl.concat_list(own))
    rows = chosen.select("step", "weight", path.alias("path"), "texts", "text", *_OF_CALL).iter_rows()
    return [
        _Sample(step, weight, tuple(path), _texts(path, texts, text), *of_call)
        for step, weight, path, texts, text, *of_call in rows
        if path
    ]


_OF_CALL = ("work", "call", "leaf", "expression", "between")


def _texts(path: list[str], texts: list[str | None] | None, text: str | None) -> tuple[str | None, ...]:
    """The source line of each frame of a path; only that of the innermost one where the others were not written."""
    if texts is not None and len(texts) == len(path):
        return tuple(texts)
    return (*[None] * (len(path) - 1), text)


def _weights(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    weights: Counter[str] = Counter()
    for name, weight in pairs:
        weights[name] += weight
    return sorted(weights.items(), key=lambda item: (-item[1], item[0]))


def _place(frame: str, text: str) -> Place:
    """The place that a frame such as `/home/me/train.py:41 main` names."""
    file, line, symbol = _FRAME.fullmatch(frame).groups()  # type: ignore[union-attr]
    return Place(file=file, line=int(line), symbol=symbol, text=text)


def _median(values: pl.Series) -> float:
    middle = values.median()
    return float(middle) if isinstance(middle, int | float) else 0.0
