"""A page for each rule from its module's docstring and its own example, and the page that lists them."""

import io

from stepscope.cli._pages import RULES, example_findings, finds
from stepscope.core.finding import Rule
from stepscope.core.report import FindingBlock
from stepscope.render.terminal import console_for, print_finding
from stepscope.report.assemble import step_times

__all__ = ["pages"]

HEAD = """\
# Rules

*Generated from the rules by `tools/generate_docs.py`.*

A rule looks for one problem. It reports evidence, the place in your code where there is one, what to change, and the
time per step that the change is predicted to save. The example on each page is the rule's own: a small made-up run, not
a measurement.

| rule | problem | cause |
|---|---|---|
"""


def pages() -> dict[str, str]:
    """Return docs/rules/**/*.md by path below docs/."""
    rules = RULES.load()
    rows = "".join(row(name, rule) for name, rule in rules.items())
    return {
        "rules/index.md": HEAD + rows,
        **{f"rules/{topic(name)}/{name}.md": rule_page(name, rule) for name, rule in rules.items()},
    }


def topic(name: str) -> str:
    """The folder that a rule lies in."""
    return RULES.module(name).split(".")[-2]


def row(name: str, rule: Rule) -> str:
    _, findings = example_findings(rule, fixed=False)
    causes = ", ".join(sorted({finding.cause for finding in findings}))
    return f"| [{name}]({topic(name)}/{name}.md) | {finds(RULES.page(name))} | {causes} |\n"


def rule_page(name: str, rule: Rule) -> str:
    page = RULES.page(name).strip()
    return f"# {name}\n\n{page}\n\n## Example\n\n```text\n{example(name, rule)}\n```\n"


def example(name: str, rule: Rule) -> str:
    """What a report says about the rule's own example; `stepscope explain` shows the same."""
    run, findings = example_findings(rule, fixed=False)
    times = step_times(run)
    printed = io.StringIO()
    for finding in findings:
        print_finding(console_for(printed), FindingBlock(name, finding), (), of_steps=times is not None)
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
