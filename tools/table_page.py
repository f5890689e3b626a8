"""The data dictionary: every core table and every analysis, with types, units and meanings."""

from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis
from stepscope.core.schema import TABLES, Column

__all__ = ["page"]

HEAD = """\
# Tables

*Generated from `core/schema.py` and the analyses by `tools/generate_docs.py`.*

Times are 64-bit integers of nanoseconds. An empty cell (null) means "not recorded" and is never zero. A row belongs to
a process, (`rank`, `pid`); correlation ids are unique only within a process.

Print any analysis or core table with `stepscope show NAME PATH`, as a table, JSON, CSV, Markdown or Parquet.
"""


def page() -> str:
    """Return docs/tables.md."""
    analyses = PluginGroup("analyses", Analysis)
    parts = [HEAD, "## Analyses\n", "An analysis derives one table from the core tables.\n"]
    for name, analysis in analyses.load().items():
        shown = name.replace("-", "_")
        parts += [f"### `{shown}`\n", analyses.page(name).strip() + "\n", columns_table(analysis.columns)]
    parts += ["## Core tables\n", "Importers fill these from what was recorded; analyses read them.\n"]
    for name, columns in TABLES.items():
        parts += [f"### Core table `{name}`\n", columns_table(columns)]
    return "\n".join(parts)


def columns_table(columns: tuple[Column, ...]) -> str:
    rows = [f"| `{c.name}` | {c.type} | {c.unit or ''} | {cell(c.meaning)} |" for c in columns]
    return "\n".join(["| column | type | unit | meaning |", "|---|---|---|---|", *rows, ""])


def cell(text: str) -> str:
    return text.replace("|", "\\|")
