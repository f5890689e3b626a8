"""What could not be checked, and how to record what it takes; rules that lack the same thing share a row."""

from stepscope.core.errors import DEVICE_WORK
from stepscope.core.report import Block, Section, Table
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose

__all__ = ["SECTION"]


def build(run: Run) -> list[Block]:
    if "xla" in run.optional("processes", "framework")["framework"]:
        return []  # nothing that could be recorded would make the rules fit
    by_need: dict[tuple[str, str], list[str]] = {}
    for unchecked in diagnose(run).unchecked:
        by_need.setdefault((unchecked.missing, unchecked.how), []).append(unchecked.rule)
    if not by_need:
        return []
    rows = tuple((_named(rules, missing), missing, how) for (missing, how), rules in by_need.items())
    return [Table("", (("checks", None), ("needs", None), ("how to get it", None)), rows)]


def _named(rules: list[str], missing: str) -> str:
    """The rules, but for those about accelerators in a job that has none: their names would only take room."""
    return "all checks about accelerators" if missing == DEVICE_WORK else ", ".join(rules)


SECTION = Section(title="Not checked", order=30, group="quality", build=build)
