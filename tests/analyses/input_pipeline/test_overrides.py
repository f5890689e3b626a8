"""A run with settings from outside says so on its first screen."""

import json
from typing import Any

import pytest

from stepscope.core.report import Text
from stepscope.core.synth import Synth
from stepscope.render.format import text
from stepscope.report.sections.summary import SECTION


def told(**fact: Any) -> list[str]:
    synth = Synth()
    for step in range(10):
        synth.step(step, step * 10, step * 10 + 10, data_wait=1)
    synth.add("meta", key="options", value=json.dumps({"overrides": {"num_workers": 4}}))
    if fact:
        row = {"kind": "override", "id": 0, "wanted": {"num_workers": 4}, "set": {}, "refused": None, **fact}
        synth.add("meta", key="override 0", value=json.dumps(row))
    blocks = SECTION.build(synth.run())
    return [text(block) for block in blocks if isinstance(block, Text) and "Trial run" in text(block)]


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        (
            {"file": "/a/train.py", "line": 7, "set": {"num_workers": [0, 4]}},
            "Trial run: the loader of train.py:7 uses num_workers=4 (script: 0).",
        ),
        ({"refused": "{no}"}, "Trial run: num_workers=4 not applied to a loader: {no}."),
        ({}, "Trial run: num_workers=4 not applied: training used no torch DataLoader."),
    ],
)
def test_the_first_screen_tells_a_trial(fact: dict[str, Any], sentence: str) -> None:
    assert told(**fact) == [sentence]


def test_a_loader_that_has_the_settings_already_is_no_trial() -> None:
    assert told(set={"num_workers": [4, 4]}) == []
