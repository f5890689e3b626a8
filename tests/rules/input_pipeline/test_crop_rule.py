"""A crop after work on whole pictures: which transforms it can go before, and the code for that."""

import polars as pl
import pytest

from stepscope.core.errors import MissingData
from stepscope.core.finding import Place
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.report.diagnose import RULES

from .test_input_rules import Parts, one, rules_of, slow_run, values


def test_a_conversion_before_a_crop_is_named_and_one_behind_it_is_not() -> None:
    found = one("crop-after-transform", slow_run("crop-after-transform"))
    assert found.where == (Place(file="/home/me/data.py", line=10, symbol="data.Convert"),)
    assert values(found)["share kept by Crop"] == 1 / 16
    assert found.advice[0].code == "Compose([Crop(...), Convert(...)])"
    name = pl.col("name").replace({"data.Crop": "data.Convert", "data.Convert": "data.Crop"})
    assert not list(RULES.get("crop-after-transform").check(slow_run("crop-after-transform", name=name)))


def crop_of(*transforms: str, inside: str = "") -> str:
    """The code given for transforms of a picture in this order, the last but one of which crops it."""
    *early, crop, last = transforms
    parts: Parts = (
        *(("transform", name, 4 * number + 4, 4 * number + 4) for number, name in enumerate(early)),
        ("transform", crop, 0.5, 0.5), ("transform", last, 0.5, 0.5), ("collate", "torch.c", 1, 1),
    )  # fmt: skip
    taken = sum(cpu for *_, cpu in parts)
    length = (taken + 1) / 2
    synth = Synth().loading(length=length, own=2, workers=2, cores=2, parts=parts, used=(taken + 3) / length)
    for name, before, after in (*((name, 16, 16) for name in early), (crop, 16, 1), (last, 1, 1)):
        synth.add("transform_sizes", loader=0, name=name, before=before, after=after)
    if inside:
        for step in range(40):
            synth.span("transform", step, step % 2, step * length, step * length + taken - 1, name=inside)
    return one("crop-after-transform", synth.run()).advice[0].code


def test_code_for_an_earlier_crop_keeps_the_order_of_the_others() -> None:
    """By CPU time the last conversion would come first, and values would be normalized before they are scaled."""
    assert crop_of("data.Scale", "data.Normalize", "data.Crop", "data.Flip") == (
        "Compose([Crop(...), Scale(...), Normalize(...), Flip(...)])"
    )


def test_a_crop_stays_behind_what_makes_its_picture() -> None:
    torchvision = "torchvision.transforms.transforms"
    assert crop_of("data.DecodeJpeg", "data.Scale", "data.Crop", "data.Flip") == (
        "Compose([DecodeJpeg(...), Crop(...), Scale(...), Flip(...)])"
    )
    assert crop_of(f"{torchvision}.ToTensor", "data.Scale", "data.Crop", "data.Flip") == (
        "Compose([ToTensor(...), Crop(...), Scale(...), Flip(...)])"
    )
    assert crop_of(f"{torchvision}.ToTensor", "data.Scale", f"{torchvision}.RandomCrop", "data.Flip") == (
        "Compose([RandomCrop(...), ToTensor(...), Scale(...), Flip(...)])"
    )


def test_what_holds_the_transforms_is_none_of_them() -> None:
    assert crop_of("data.Scale", "data.Normalize", "data.Crop", "data.Flip", inside="data.Chain") == (
        "Compose([Crop(...), Scale(...), Normalize(...), Flip(...)])"
    )


def test_a_conversion_that_changes_the_size_is_not_put_behind_the_crop() -> None:
    run = slow_run("crop-after-transform")
    sizes = run.optional("transform_sizes")
    grown = pl.when(pl.col("name") == "data.Convert").then(pl.col("before") * 3).otherwise("after")
    assert rules_of(Run({**run.tables, "transform_sizes": sizes.with_columns(after=grown)}, run.path)) == [
        "slow-transform"
    ]


def test_without_sizes_the_order_is_not_judged() -> None:
    run = slow_run("crop-after-transform")
    older = Run({name: table for name, table in run.tables.items() if name != "transform_sizes"}, run.path)
    with pytest.raises(MissingData, match="sizes before and after transforms"):
        list(RULES.get("crop-after-transform").check(older))
    assert rules_of(older) == ["slow-transform"]
