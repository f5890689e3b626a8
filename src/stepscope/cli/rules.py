"""`stepscope rules`: what can be found."""

import sys

import click

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope rules
  stepscope explain input-bound
"""


@click.command("rules", epilog=_EXAMPLES, short_help="List the rules: what each finds.")
def COMMAND() -> None:
    """List the rules. `stepscope explain RULE` prints the page of one."""
    from stepscope.cli._pages import RULES, finds
    from stepscope.core.report import Table
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    rows = tuple((name, finds(RULES.page(name))) for name in RULES.load())
    print_table(console_for(sys.stdout), Table("", (("rule", None), ("finds", None)), rows))
