"""`stepscope doctor`: what can be recorded on this machine, and why not the rest."""

import sys

import click

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope doctor
  stepscope doctor --format json
"""


@click.command("doctor", epilog=_EXAMPLES, short_help="Say what can be recorded here, and why not the rest.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format [default: text]"
)
def COMMAND(form: str) -> None:
    """Look at this machine: what can be recorded here, and what to do about the rest."""
    from stepscope.cli._checks import CHECKS
    from stepscope.cli._output import write_text
    from stepscope.core.report import Table
    from stepscope.render.format import text

    checks = [check() for check in CHECKS]
    if form == "json":
        from dataclasses import asdict

        from stepscope.render.json import dumps

        rows = [
            {**asdict(check), "found": text(check.found), "values": asdict(check.found)["values"]} for check in checks
        ]
        write_text(dumps({"schema": "stepscope-doctor", "version": 1, "checks": rows}), None)
        return
    from stepscope.render.tables import print_table
    from stepscope.render.terminal import console_for

    columns = (("what", None), ("usable", None), ("found", None), ("what to do", None))
    rows_shown = tuple((check.name, check.state, text(check.found), check.how) for check in checks)
    print_table(console_for(sys.stdout), Table("", columns, rows_shown))
