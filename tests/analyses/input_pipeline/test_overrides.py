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
    return [
        text(block) for block in blocks if isinstance(block, Text) and "set from outside" in text(block).lower()
    ] + [text(block) for block in blocks if isinstance(block, Text) and "A trial" in text(block)]


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        (
            {"file": "/a/train.py", "line": 7, "set": {"num_workers": [0, 4]}},
            "A trial, not the script as it is: the loader of train.py:7 was given num_workers=4 (its own: 0).",
        ),
        ({"refused": "{no}"}, "Not set from outside: num_workers=4, for a loader: {no}."),
        ({}, "Not set from outside: num_workers=4: no DataLoader of torch was iterated for training."),
    ],
)
def test_the_first_screen_tells_a_trial(fact: dict[str, Any], sentence: str) -> None:
    assert told(**fact) == [sentence]


def test_a_loader_that_has_the_settings_already_is_no_trial() -> None:
    assert told(set={"num_workers": [4, 4]}) == []
