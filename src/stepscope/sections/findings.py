"""What slows the run down, largest gain first: evidence, place in the code, and the code to write instead."""

from stepscope.core.report import Block, Section, Text, Value
from stepscope.core.run import Run
from stepscope.diagnose import diagnose

__all__ = ["SECTION"]


def build(run: Run) -> list[Block]:
    diagnosis = diagnose(run)
    if diagnosis.findings:
        return list(diagnosis.findings)
    unchecked = len(diagnosis.unchecked)
    if not unchecked:
        return [Text("Nothing found: no rule sees time that a change would save.")]
    return [Text("Nothing found by the rules that could look; {} could not (see below).", (Value(unchecked, "count"),))]


SECTION = Section(title="Findings", order=10, build=build)
