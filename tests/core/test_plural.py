"""One of a thing is not several."""

import json
import re

import pytest

from stepscope.core.plural import plural
from stepscope.core.synth import build
from stepscope.render.format import counted
from stepscope.render.json import report_document
from stepscope.report.assemble import first_screen
from stepscope.report.diagnose import RULES

SEVERAL = (
    r"(?<![\d.,/:=])1 (batches|calls|checks|cores|copies|devices|files|gaps|kernels|lines|processes|ranks|rows|rules|"
    r"samples|steps|tensors|threads|times|workers)\b"
)


def test_only_one_is_singular() -> None:
    assert [plural(count, "step") for count in (0, 1, 1.0, 1.5, 2, None)] == [
        "steps", "step", "step", "steps", "steps", "steps",
    ]  # fmt: skip
    assert plural(2, "batch", "batches") == "batches"
    assert (counted(1, "check"), counted(1240, "check")) == ("1 check", "1,240 checks")


@pytest.mark.parametrize("rule", RULES.names())
@pytest.mark.parametrize("fixed", [False, True])
def test_no_first_screen_counts_one_as_several(rule: str, *, fixed: bool) -> None:
    text = json.dumps(report_document(first_screen(build(RULES.get(rule).example, fixed=fixed))))
    assert not re.findall(SEVERAL, text)
    assert re.findall(SEVERAL, "with 1 workers")
