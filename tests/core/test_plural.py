"""One of a thing is not several."""

import json
import re
from pathlib import Path

import pytest

from stepscope.core.plural import plural
from stepscope.render.format import counted
from stepscope.render.json import report_document
from stepscope.report.assemble import first_screen
from stepscope.report.diagnose import RULES

from ..examples import example

NOUNS = (
    "batches|calls|checks|clocks|cores|copies|devices|epochs|events|files|findings|gaps|kernels|lines|processes|ranks|"
    "rows|rules|runs|samples|spans|steps|threads|times|traces|trials|windows|workers"
)
SEVERAL = rf"(?<![\d.,/:=])1 ({NOUNS}|tensors)\b"
FIXED = rf"\"[^\"\n]*\{{\}} (?:(?!for|keeps)[a-z]+ )?(?:{NOUNS})\b[^\"\n]*\""
AT_LEAST_TWO = (
    '"{} processes full samples before', '"One bar is the mean of {} steps in a row',
    '"The run holds {} independent jobs',
    'prose.say("Operators on the CPU use {} threads."', 'prose.say("{} loader workers per rank."',
    'text = f"{{}} traces are {flaw}', '"Gradients are reduced {} times', '"{} small {} calls per step',
    '"{} small copies to the device',
    '"torch.compile breaks the graph at {} lines, most often',
    '"Host memory grows by {} in {} steps', '"Each layer runs {} times', '"A recurrent cell is called {} times',
)  # fmt: skip
"""Sentences with a verb, or that have another form for one in the code beside them."""


def test_only_one_is_singular() -> None:
    assert [plural(count, "step") for count in (0, 1, 1.0, 1.0004, 1.5, 2, None)] == [
        "steps", "step", "step", "step", "steps", "steps", "steps",
    ]  # fmt: skip
    assert plural(2, "batch", "batches") == "batches"
    assert (counted(1, "check"), counted(1240, "check")) == ("1 check", "1,240 checks")


@pytest.mark.parametrize("rule", RULES.names())
@pytest.mark.parametrize("fixed", [False, True])
def test_no_first_screen_counts_one_as_several(rule: str, *, fixed: bool) -> None:
    text = json.dumps(report_document(first_screen(example(rule, fixed=fixed))))
    assert not re.findall(SEVERAL, text)
    assert re.findall(SEVERAL, "with 1 workers")


def test_no_text_has_a_count_before_a_fixed_plural() -> None:
    """`{} kernels` in a title or sentence is wrong for one: `f"{{}} {plural(count, 'kernel')}"` is right for all."""
    source = Path(__file__).parents[2] / "src" / "stepscope"
    fixed = [
        f"{file.relative_to(source)}: {line.strip()}"
        for file in sorted(source.rglob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(FIXED, line)
        and not any(text in line for text in AT_LEAST_TWO)
        and "plural(" not in line
        and "`{} step` or" not in line
    ]
    assert fixed == []
    assert re.search(FIXED, '"The GPU idles: the host launches {} kernels per step"')
