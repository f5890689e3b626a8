"""The examples of rules, built once in a process: tests of one run share what is computed of it."""

from functools import cache

from stepscope.core.run import Run
from stepscope.core.synth import build
from stepscope.report.diagnose import RULES


@cache
def example(name: str, *, fixed: bool = False) -> Run:
    """The run of `example(synth, fixed)` of a rule."""
    return build(RULES.get(name).example, fixed=fixed)
