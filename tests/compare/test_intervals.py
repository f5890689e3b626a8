"""The interval of a comparison as a block: the sentence agrees with the verdict, and one recording has none."""

import pytest

from stepscope.compare.intervals import intervals_of
from stepscope.compare.page import page_of
from stepscope.compare.pictures import NAMES, pictures_of
from stepscope.core.synth import Synth

from .training import compared, looped, traced

NOISE = looped(noise=0.5, wait=0, steps=20, seed=5)


@pytest.mark.parametrize(
    ("a", "b", "kind", "words"),
    [
        (looped(41), looped(33, seed=2), "faster", "A difference: the whole interval is above 1"),
        (looped(33), looped(41, seed=2), "slower", "A difference: the whole interval is below 1"),
        (looped(noise=0.01), looped(noise=0.01, seed=2), "same", "No difference"),
        (NOISE, looped(noise=0.5, wait=0, steps=20, seed=4), "inconclusive", "includes 1 and is wide"),
        (looped(steps=6), looped(steps=6, seed=2), "inconclusive", "too few steps"),
    ],
)
def test_it_says_what_the_verdict_says(a: Synth, b: Synth, kind: str, words: str) -> None:
    comparison = compared(a, b)
    block, *_ = intervals_of(comparison)
    assert comparison.speed.ratio
    assert (block.estimate, block.low, block.high) == (
        comparison.speed.ratio.estimate, comparison.speed.ratio.low, comparison.speed.ratio.high,
    )  # fmt: skip
    assert block.kind == comparison.outcome.kind == kind
    assert words in block.meaning


def test_what_doubts_allow_widens_it() -> None:
    steady, drifting = compared(looped(41), looped(33, seed=2)), compared(looped(41), looped(33, seed=2, drift=0.1))
    assert [block.widened for block in intervals_of(steady)] == [None]
    (block,) = intervals_of(drifting)
    assert block.widened
    assert block.widened[0] < block.low < block.high < block.widened[1]


def test_other_batch_sizes_have_an_interval_of_samples_too() -> None:
    titles = [block.title for block in intervals_of(compared(looped(41), looped(41, seed=2, samples=64)))]
    assert len(titles) == 2 and "Samples" in titles[1]


def test_one_recording_has_none() -> None:
    assert list(intervals_of(compared(looped(), looped()))) == []


def test_pictures_are_named_and_titled() -> None:
    found = pictures_of(page_of(compared(traced(time=20), traced(time=10, extra=True))))
    assert {"change-by-call", "change-by-kernel", "change-by-operator"} <= set(found) <= set(NAMES)
    assert all(picture.title for picture in found.values())
