"""A report, or the table of an analysis, as JSON (report.schema.json): for other programs, and for the page.

Times are integers in nanoseconds, shares are ratios from 0 to 1, and what is unknown is null, never NaN.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import assert_never

import polars as pl

from stepscope.core.finding import Finding
from stepscope.core.report import (
    Bars,
    Block,
    ChangeTree,
    FindingBlock,
    Flame,
    Heatmap,
    Interval,
    Lanes,
    Lines,
    Roofline,
    Table,
    Text,
    Verdict,
)
from stepscope.core.schema import Column
from stepscope.render.commands import with_path
from stepscope.render.document import Page, Part, Report
from stepscope.render.finite import finite
from stepscope.render.format import text, title_text
from stepscope.render.verdict import sentence

__all__ = ["SCHEMA", "VERSION", "dumps", "frame_document", "page_document", "report_document"]

SCHEMA = "stepscope-report"
"""Value of the key `schema`."""

VERSION = 2
"""Raised when a key is removed or changes its meaning; new keys do not raise it."""


def report_document(report: Report) -> dict[str, object]:
    """The report as plain dicts and lists, as in report.schema.json."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "run": asdict(report.run),
        "verdict": _verdict(report.verdict),
        "findings": [_finding(block, report.path) for block in report.findings],
        "overlaps": [asdict(overlap) for overlap in report.overlaps],
        "checked": report.checked,
        "unchecked": [asdict(unchecked) for unchecked in report.unchecked],
        "skipped": [asdict(skipped) for skipped in report.skipped],
        "sections": [_section(part) for part in report.parts],
    }


def page_document(page: Page) -> dict[str, object]:
    """A document that is no report, for the page: no contract, other programs have a better one of each."""
    return {
        "schema": "stepscope-page",
        "version": VERSION,
        "name": page.name,
        "subject": page.subject,
        "sections": [_section(part) for part in page.parts],
    }


def frame_document(analysis: str, columns: Iterable[Column], frame: pl.DataFrame) -> dict[str, object]:
    """A table as {analysis, columns: [{name, type, unit}], rows: [{…}]}; types are those of Polars."""
    described = [
        {"name": column.name, "type": str(frame.schema[column.name]), "unit": column.unit} for column in columns
    ]
    return {"analysis": analysis, "columns": described, "rows": frame.select([c["name"] for c in described]).to_dicts()}


def dumps(document: object) -> str:
    """JSON text of a document, ASCII only, so that no name can disturb a terminal; NaN and infinity become null."""
    return json.dumps(finite(document), indent=2, allow_nan=False) + "\n"


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "bound": verdict.bound,
        "share": verdict.share,
        "sentence": sentence(verdict),
        "rank": verdict.rank,
        "ranks": verdict.ranks,
        "steps": verdict.steps,
        "next": verdict.next_step,
        "share_unrecorded": verdict.share_unrecorded,
        "likely": verdict.likely,
    }


def _finding(block: FindingBlock, path: str = "") -> dict[str, object]:
    finding: Finding = block.finding
    return {
        "rule": block.rule,
        "title": title_text(finding.title),
        "cause": finding.cause,
        "ranks": finding.ranks,
        "gain": asdict(finding.gain) if finding.gain else None,
        "evidence": [asdict(evidence) for evidence in finding.evidence],
        "where": [asdict(place) for place in finding.where],
        "advice": [asdict(replace(advice, code=with_path(advice.code, path))) for advice in finding.advice],
        "trial": finding.trial,
    }


def _section(part: Part) -> dict[str, object]:
    missing = {"what": part.missing, "how": part.how} if part.how else None
    return {
        "name": part.name,
        "title": part.title,
        "group": part.group,
        "missing": missing,
        "blocks": [_block(block) for block in part.blocks],
    }


def _block(block: Block) -> dict[str, object]:
    match block:
        case Text():
            return {"kind": "text", "text": text(block), "values": [asdict(value) for value in block.values]}
        case Verdict():
            return {"kind": "verdict", **_verdict(block)}
        case Table():
            return _table(block)
        case Bars():
            parts = [asdict(part) for part in block.parts]
            return {"kind": "bars", "title": block.title, "unit": block.unit, "parts": parts, "whole": block.whole}
        case Lines():
            began = None if block.began is None else str(block.began)  # more digits than a number of JavaScript has
            return {"kind": "lines", **asdict(block), "began": began}
        case Heatmap():
            return {"kind": "heatmap", **asdict(block)}
        case Flame():
            return _flame(block)
        case Roofline():
            return {"kind": "roofline", **asdict(block)}
        case Lanes():
            return {"kind": "lanes", **asdict(block)}
        case Interval():
            told = asdict(block)
            return {"outcome": told.pop("kind"), **told, "kind": "interval"}
        case ChangeTree():
            rows = [(row.depth, row.name, *row.calls, *row.own, *row.whole) for row in block.rows]
            return {
                "kind": "tree", "title": block.title, "unit": block.unit, "rows": rows, "left_out": block.left_out,
            }  # fmt: skip
        case FindingBlock():
            return {"kind": "finding", **_finding(block)}
        case _:
            assert_never(block)


def _table(table: Table) -> dict[str, object]:
    meanings = table.meanings or ("",) * len(table.columns)
    columns = [
        {
            "name": name,
            "unit": unit,
            "meaning": meaning,
            "decimal": any(isinstance(row[at], float) for row in table.rows),
        }
        for at, ((name, unit), meaning) in enumerate(zip(table.columns, meanings, strict=True))
    ]
    change = {} if table.change is None else {"change": table.change}
    return {
        "kind": "table", "title": table.title, "columns": columns, "rows": table.rows, "source": table.source, **change,
    }  # fmt: skip


def _flame(flame: Flame) -> dict[str, object]:
    """Nodes as lists of numbers: a tree has hundreds."""
    return {
        "kind": "flame",
        "title": flame.title,
        "unit": flame.unit,
        "frames": [asdict(frame) for frame in flame.frames],
        "nodes": [[node.frame, node.parent, node.own, node.total, node.calls] for node in flame.nodes],
        "counts": flame.counts,
        "steps": flame.steps,
        "note": text(flame.note),
        "source": flame.source,
    }
