"""The pages of rules and what their examples give."""

from stepscope.core.finding import Finding, Rule
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Run
from stepscope.core.synth import build

__all__ = ["RULES", "example_findings", "finds"]

RULES = PluginGroup("rules", Rule)
"""All rules."""


def example_findings(rule: Rule, *, fixed: bool) -> tuple[Run, list[Finding]]:
    """A rule's own example, with the problem or with the problem fixed, and what the rule finds in it."""
    run = build(rule.example, fixed=fixed)
    return run, list(rule.check(run))


def finds(page: str) -> str:
    """The first line of a rule's page: the problem in one sentence."""
    return page.strip().partition("\n")[0]
