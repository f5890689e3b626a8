"""Which collectives of different ranks are one: by sequence number where it is recorded, else by order, checked.

A send and a receive are one where the trace tells both ends, or where the group has two ranks only.

By order: the collectives of a lane within a step must be the same list on the ranks (collective, type, elements). Where
the lists differ, those are matched that occur once in the step on each rank that has them. Without steps, equal lists
are taken to be of one window; lists that differ must agree where they overlap, at exactly one shift and by half of the
shorter one at least. Lists that repeat themselves fit at several and stay apart: nothing is shifted on a guess.
"""

from collections import Counter

import numpy as np
import numpy.typing as npt
import polars as pl

from stepscope.analyses.communication.lib.collective_names import POINT_TO_POINT, UNEVEN

__all__ = ["matched"]

_PAIR = 2  # ranks of a group in which the other end of a send is known
_PAIRED = "point-to-point"  # stands for send and receive, which are one transfer under two names
_SIGNATURE = ["name", "dtype", "in_elements", "out_elements"]
Codes = npt.NDArray[np.int64]


def matched(calls: pl.DataFrame) -> pl.DataFrame:
    """Collectives with `key` (sequence, or place in the step), `kernels`, `match`, `matched_by` and `unmatched`.

    `match` numbers what was matched, from 0, equal on all its ranks; null where `unmatched` tells why not. Kernels of
    one rank with one sequence number are one collective, from the first start to the last end.
    """
    calls = calls.with_columns(
        key=pl.col("sequence"), unmatched=_hopeless(), kernels=pl.lit(1, pl.Int64), name=_common_name()
    )
    left = calls.filter(pl.col("unmatched").is_not_null())
    calls = calls.filter(pl.col("unmatched").is_null())
    numbered = _by_sequence(calls.filter(pl.col("sequence").is_not_null()))
    ordered = calls.filter(pl.col("sequence").is_null())
    return _with_numbers(pl.concat((left, numbered, *_by_order(ordered)), how="diagonal_relaxed"))


def _hopeless() -> pl.Expr:
    """Why a collective cannot be matched, whatever the other ranks hold."""
    paired = pl.col("collective").is_in(POINT_TO_POINT)
    of_two = (pl.col("group_size") == _PAIR).fill_null(False) & pl.col("sequence").is_not_null()
    known = of_two | pl.col("sender").is_not_null()  # then the receiver is known too
    return (
        pl.when(pl.col("device").drop_nulls().n_unique().over("rank") > 1).then(pl.lit("several-devices"))
        .when(pl.col("collective").is_null()).then(pl.lit("no-name"))
        .when(paired & ~known).then(pl.lit("no-peer"))
    )  # fmt: skip


def _common_name() -> pl.Expr:
    paired = pl.col("collective").is_in(POINT_TO_POINT)
    return pl.when(paired).then(pl.lit(_PAIRED)).otherwise("collective")


def _with_numbers(calls: pl.DataFrame) -> pl.DataFrame:
    if "matched_by" not in calls.columns:
        calls = calls.with_columns(matched_by=pl.lit(None, pl.String))
    calls = calls.with_columns(of_step=pl.when(pl.col("matched_by") != "sequence").then("step"))
    same = ["lane", "of_step", "matched_by", "key", "name"]
    hits = calls.filter(pl.col("matched_by").is_not_null()).group_by(same).agg(pl.col("start").min())
    numbers = hits.sort("start", *same).drop("start").with_row_index("match")
    return calls.join(numbers.with_columns(pl.col("match").cast(pl.Int64)), on=same, how="left", nulls_equal=True)


def _by_sequence(calls: pl.DataFrame) -> pl.DataFrame:
    key = ["lane", "sequence", "name"]
    rest = pl.exclude("rank", *key, "start", "end", "kernels").first()
    spans = (pl.col("start").min(), pl.col("end").max(), pl.len().cast(pl.Int64).alias("kernels"))
    one = calls.sort("rank", "start").group_by("rank", *key, maintain_order=True).agg(rest, *spans)
    alone = pl.col("rank").n_unique().over(key) < 2
    why = (
        pl.when(alone & (pl.col("name").n_unique().over("lane", "sequence") > 1)).then(pl.lit("other-name"))
        .when(alone).then(pl.lit("alone"))
        .when(pl.col("kernels").n_unique().over(key) > 1).then(pl.lit("other-count"))
    )  # fmt: skip
    return _judged(one.with_columns(unmatched=why), "sequence")


def _by_order(calls: pl.DataFrame) -> list[pl.DataFrame]:
    """Rows with key, matched_by and unmatched; `key` is the place in the list of the segment."""
    comparable = ~pl.col("collective").is_in(UNEVEN)
    sizes = [pl.when(comparable).then(name).alias(name) for name in _SIGNATURE[2:]]
    signatures = calls.select("name", "dtype", *sizes)
    codes = signatures.unique().sort(_SIGNATURE).with_row_index("code")
    code = signatures.join(codes, on=_SIGNATURE, how="left", nulls_equal=True, maintain_order="left")["code"]
    calls = calls.with_columns(code=code.cast(pl.Int64), comparable=comparable & pl.col("in_elements").is_not_null())
    parts = calls.sort("lane", "step", "rank", "start", "end").partition_by("lane", "step", maintain_order=True)
    return [_segment(part).drop("code", "comparable") for part in parts]


def _segment(calls: pl.DataFrame) -> pl.DataFrame:
    """One lane in one step, ordered by rank and start."""
    lists = [part["code"].to_numpy() for part in calls.partition_by("rank", maintain_order=True)]
    in_step = calls["step"][0] is not None
    model = _model(lists, in_step=in_step)
    found = [_placed(codes, model, in_step=in_step) for codes in lists]
    keys = np.concatenate([np.arange(len(codes)) + place for codes, (place, _) in zip(lists, found, strict=True)])
    why = [why for codes, (_, why) in zip(lists, found, strict=True) for _ in codes]
    placed = _judged(calls.with_columns(key=pl.Series(keys), unmatched=pl.Series(why, dtype=pl.String)), "order")
    return _with_unique(placed) if in_step else placed


def _model(lists: list[Codes], *, in_step: bool) -> Codes:
    """The list that most ranks have, or without steps the longest; of equals, that of the lowest rank."""
    common = Counter(codes.tobytes() for codes in lists)
    return max(lists, key=lambda codes: common[codes.tobytes()] if in_step else len(codes))


def _placed(codes: Codes, model: Codes, *, in_step: bool) -> tuple[int, str | None]:
    """Where a rank's list begins in the model, and why it has no place there."""
    if len(codes) == len(model) and (codes == model).all():
        return 0, None
    if in_step:
        return 0, "other-order" if len(codes) == len(model) else "other-count"
    shifts = _shifts(codes, model)
    if len(shifts) > 1:
        return 0, "ambiguous"
    overlaps = [min(len(model) - shift, len(codes)) - max(0, -shift) for shift in shifts]
    if not shifts or 2 * overlaps[0] < min(len(codes), len(model)):
        return 0, "other-order"
    return shifts[0], None


def _shifts(codes: Codes, model: Codes) -> list[int]:
    """The first two shifts at most at which `codes` agrees with `model` wherever they overlap."""
    found: list[int] = []
    for shift in range(1 - len(codes), len(model)):
        part = model[max(0, shift) : shift + len(codes)]
        begin = max(0, -shift)
        if (codes[begin : begin + len(part)] == part).all():
            found.append(shift)
            if len(found) > 1:
                break
    return found


def _with_unique(placed: pl.DataFrame) -> pl.DataFrame:
    """In a step, match what has no place but occurs once on every rank that has it, and on two ranks at least."""
    counted = placed.with_columns(times=pl.len().over("rank", "code"))
    several = pl.col("rank").n_unique().over("code") > 1
    missed = pl.col("unmatched").is_not_null().any().over("code")
    repair = pl.col("comparable") & (pl.col("times").max().over("code") == 1) & several & missed
    return counted.with_columns(
        key=pl.when(repair).then("code").otherwise("key"),
        matched_by=pl.when(repair).then(pl.lit("unique")).otherwise("matched_by"),
        unmatched=pl.when(repair).then(None).otherwise("unmatched"),
    ).drop("times")


def _judged(calls: pl.DataFrame, how: str) -> pl.DataFrame:
    """`matched_by` where nothing speaks against the match and another rank shares its key."""
    key = ["lane", "sequence", "name"] if how == "sequence" else ["key"]
    fits = pl.col("unmatched").is_null()
    together = pl.col("rank").filter(fits).n_unique().over(key) > 1
    others = pl.lit("alone") if how == "sequence" else pl.col("unmatched").drop_nulls().first().fill_null("alone")
    judged = calls.with_columns(unmatched=pl.when(fits & ~together).then(others).otherwise("unmatched"))
    return judged.with_columns(matched_by=pl.when(pl.col("unmatched").is_null()).then(pl.lit(how)))
