"""Graph breaks: the line that breaks most comes first, and the advice fits it."""

import pytest

from stepscope.core.synth import Synth
from stepscope.render.format import title_text
from stepscope.rules.host.graph_breaks import RULE


@pytest.mark.parametrize(
    ("line", "reason", "fix"),
    [
        ("print(hidden)", "Failed to trace builtin operator", "Print or log outside"),
        ("if hidden.sum().item() > 0:", "Unsupported Tensor.item() call", "Read the value after"),
        ("if hidden.sum() > 0:", "Data-dependent branching", "Replace the condition"),
        ("hidden = load(hidden)", "Attempted to call function marked as skipped", "Move this line out"),
    ],
)
def test_the_advice_fits_the_line(line: str, reason: str, fix: str) -> None:
    synth = Synth().add("sources", file="/me/model.py", line=12, text=line)
    synth.add("graph_breaks", file="/me/model.py", line=12, function="forward", reason=reason, count=1)
    (finding,) = RULE.check(synth.run())
    assert finding.advice[0].text.startswith(fix)
    assert finding.gain is None


def test_several_lines() -> None:
    synth = Synth()
    for line, count in ((12, 1), (20, 3), (31, 2)):
        synth.add("graph_breaks", file="/me/model.py", line=line, function="forward", reason="r", count=count)
    (finding,) = RULE.check(synth.run())
    assert title_text(finding.title) == "torch.compile breaks the graph at 3 lines, most often at model.py:20"
    assert [place.line for place in finding.where] == [20, 31, 12]
    assert [evidence.value for evidence in finding.evidence] == [6, 3]
