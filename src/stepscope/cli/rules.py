"""`stepscope rules`: what can be found, and under which cause."""

import sys

import click

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope rules
  stepscope explain input-bound
"""


@click.command("rules", epilog=_EXAMPLES, short_help="List the rules: what each finds, and its cause.")
def COMMAND() -> None:
    """List the rules. `stepscope explain RULE` prints the page of one."""
    from stepscope.cli._pages import RULES, example_findings, finds
    from stepscope.core.report import Table
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    rows = []
    for name, rule in RULES.load().items():
        _, problem = example_findings(rule, fixed=False)
        cause = problem[0].cause if problem else None
        rows.append((name, finds(RULES.page(name)), cause))
    print_table(console_for(sys.stdout), Table("", (("rule", None), ("finds", None), ("cause", None)), tuple(rows)))
