"""A report, or the table of an analysis, as JSON: the contract for other programs (report.schema.json).

Times are integers in nanoseconds, shares are ratios from 0 to 1, and what is unknown is null, never NaN.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import assert_never

import polars as pl

from stepscope.core.finding import Finding
from stepscope.core.report import Bars, Block, FindingBlock, Table, Text, Verdict
from stepscope.core.schema import Column
from stepscope.render.document import Part, Report
from stepscope.render.format import sentence, text

__all__ = ["SCHEMA", "VERSION", "dumps", "frame_document", "report_document"]

SCHEMA = "stepscope-report"
"""Value of the key `schema`."""

VERSION = 1
"""Raised when a key is removed or changes its meaning; new keys do not raise it."""


def report_document(report: Report) -> dict[str, object]:
    """The report as plain dicts and lists, as in report.schema.json."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "run": asdict(report.run),
        "verdict": _verdict(report.verdict),
        "findings": [_finding(block) for block in report.findings],
        "checked": report.checked,
        "unchecked": [asdict(unchecked) for unchecked in report.unchecked],
        "skipped": [asdict(skipped) for skipped in report.skipped],
        "sections": [_section(part) for part in report.parts],
    }


def frame_document(analysis: str, columns: Iterable[Column], frame: pl.DataFrame) -> dict[str, object]:
    """A table as {analysis, columns: [{name, type, unit}], rows: [{…}]}; types are those of Polars."""
    described = [
        {"name": column.name, "type": str(frame.schema[column.name]), "unit": column.unit} for column in columns
    ]
    return {"analysis": analysis, "columns": described, "rows": frame.select([c["name"] for c in described]).to_dicts()}


def dumps(document: object) -> str:
    """JSON text of a document, ASCII only, so that no name can disturb a terminal; NaN and infinity become null."""
    return json.dumps(_finite(document), indent=2, allow_nan=False) + "\n"


def _finite(value: object) -> object:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "bound": verdict.bound,
        "share": verdict.share,
        "sentence": sentence(verdict),
        "rank": verdict.rank,
        "ranks": verdict.ranks,
        "steps": verdict.steps,
    }


def _finding(block: FindingBlock) -> dict[str, object]:
    finding: Finding = block.finding
    return {
        "rule": block.rule,
        "title": finding.title,
        "cause": finding.cause,
        "ranks": finding.ranks,
        "gain": asdict(finding.gain) if finding.gain else None,
        "evidence": [asdict(evidence) for evidence in finding.evidence],
        "where": [{"file": place.file, "line": place.line, "symbol": place.symbol} for place in finding.where],
        "advice": [asdict(advice) for advice in finding.advice],
    }


def _section(part: Part) -> dict[str, object]:
    missing = {"what": part.missing, "how": part.how} if part.how else None
    return {
        "name": part.name,
        "title": part.title,
        "missing": missing,
        "blocks": [_block(block) for block in part.blocks],
    }


def _block(block: Block) -> dict[str, object]:
    match block:
        case Text():
            return {"kind": "text", "text": text(block), "values": [asdict(value) for value in block.values]}
        case Verdict():
            return {"kind": "verdict", **_verdict(block)}
        case Table(title, columns, rows):
            named = [{"name": name, "unit": unit} for name, unit in columns]
            return {"kind": "table", "title": title, "columns": named, "rows": rows}
        case Bars():
            parts = [asdict(part) for part in block.parts]
            return {"kind": "bars", "title": block.title, "unit": block.unit, "parts": parts}
        case FindingBlock():
            return {"kind": "finding", **_finding(block)}
        case _:
            assert_never(block)
