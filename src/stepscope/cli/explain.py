"""`stepscope explain`: the page of one rule, and what it says about its own example."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stepscope.cli._plugins import checked_name, completion_of

if TYPE_CHECKING:
    from stepscope.core.finding import Rule
    from stepscope.core.plugins import PluginGroup

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope explain input-bound
  stepscope explain blocking-sync
"""


def _rules() -> PluginGroup[Rule]:
    from stepscope.cli._pages import RULES

    return RULES


@click.command("explain", epilog=_EXAMPLES, short_help="Print the page of one rule, with an example.")
@click.argument("rule", shell_complete=completion_of(_rules, dashes=True))
def COMMAND(rule: str) -> None:
    """Explain RULE: what it finds, why that costs time, what to do, how the gain is predicted, when it is wrong."""
    group = _rules()
    name = checked_name(group, rule, "stepscope rules")
    from stepscope.cli._pages import example_findings
    from stepscope.core.report import FindingBlock
    from stepscope.render.terminal import console_for, print_finding, print_page, print_title
    from stepscope.report.assemble import step_times

    console = console_for(sys.stdout)
    print_page(console, f"# {name}\n\n{group.page(name)}")
    print_title(console, "Example")
    run, findings = example_findings(group.get(name), fixed=False)
    times = step_times(run)
    for finding in findings:
        print_finding(console, FindingBlock(name, finding), (), of_steps=times is not None)
