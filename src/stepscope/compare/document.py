"""A comparison as plain dicts and lists: the contract for other programs.

Its schema is comparison.schema.json, its page docs/reference/comparison.md.
Times are integers in nanoseconds, shares and ratios are numbers, and what is unknown is null.
"""

from dataclasses import asdict

from stepscope.compare.changes import Change, Changes
from stepscope.compare.comparison import Comparison, FoundChange
from stepscope.compare.run_summary import Side
from stepscope.compare.sentences import doubt_text, samples_text, verdict_text
from stepscope.compare.series import Series
from stepscope.compare.statistics import CONFIDENCE, Ratio
from stepscope.compare.tree_changes import PathChange
from stepscope.compare.verdict import Doubt
from stepscope.core.finding import Finding
from stepscope.core.report import Text
from stepscope.render.format import text, title_text

__all__ = ["SCHEMA", "VERSION", "document_of"]

SCHEMA = "stepscope-comparison"
"""Value of the key `schema`."""

VERSION = 2
"""Raised when a key is removed or changes its meaning; new keys do not raise it."""


def document_of(comparison: Comparison) -> dict[str, object]:
    """The whole comparison, every row by name included."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "verdict": _verdict(comparison),
        "a": _side(comparison.a, comparison.speed.a),
        "b": _side(comparison.b, comparison.speed.b),
        "settings": [{"name": name, "a": a, "b": b} for name, (a, b) in comparison.settings.items()],
        "per": "step" if comparison.by_step else "recording",
        "phases": _changes(comparison.phases),
        "device": _changes(comparison.device),
        "breakdown": _changes(comparison.breakdown),
        "by_name": {what: _changes(changes) for what, changes in comparison.by_name.items()},
        "call_trees": {what: _changes(changes) for what, changes in comparison.trees.items()},
        "findings": [_found(found) for found in comparison.findings],
    }


def _verdict(comparison: Comparison) -> dict[str, object]:
    speed, outcome = comparison.speed, comparison.outcome
    return {
        "kind": outcome.kind,
        "sentence": text(verdict_text(comparison)),
        "speed": _ratio(speed.ratio),
        "samples_per_second": _ratio(speed.samples),
        "samples_sentence": _words(samples_text(comparison)),
        "confidence": CONFIDENCE,
        "because": [_doubt(doubt) for doubt in outcome.because],
        "doubts": [_doubt(doubt) for doubt in outcome.doubts],
    }


def _ratio(ratio: Ratio | None) -> dict[str, float] | None:
    return None if ratio is None else asdict(ratio)


def _words(block: Text | None) -> str | None:
    return None if block is None else text(block)


def _doubt(doubt: Doubt) -> dict[str, object]:
    return {**asdict(doubt), "sentence": text(doubt_text(doubt))}


def _side(side: Side, series: Series | None) -> dict[str, object]:
    return {
        "path": side.path,
        "steps": None if series is None else _steps(series),
        "traced_steps": side.traced_steps,
        "taken_by_others": side.taken,
        "settings": dict(side.settings),
    }


def _steps(series: Series) -> dict[str, object]:
    return {
        "count": len(series.times),
        "left_out": series.left_out,
        "traced": series.traced,
        "clocks": list(series.clocks),
        "mean_ns": series.phases.whole,
        "samples": None if series.samples is None else float(series.samples.mean()),
    }


def _changes(changes: Changes | None) -> dict[str, object] | None:
    if changes is None:
        return None
    return {"a_ns": changes.a, "b_ns": changes.b, "rows": [_change(row) for row in changes.rows]}


def _change(row: Change) -> dict[str, object]:
    found: dict[str, object] = {
        "name": row.name,
        "found": row.matched,
        "a_ns": row.a,
        "b_ns": row.b,
        "difference_ns": row.difference,
        "ratio": row.ratio,
        "share": row.share,
        "a_calls": row.calls_a,
        "b_calls": row.calls_b,
    }
    if isinstance(row, PathChange):
        found |= {"path": list(row.path), "a_total_ns": row.total_a, "b_total_ns": row.total_b}
    return found


def _found(found: FoundChange) -> dict[str, object]:
    return {"rule": found.rule, "title": title_text(found.title), "a": _finding(found.a), "b": _finding(found.b)}


def _finding(finding: Finding | None) -> dict[str, object] | None:
    if finding is None:
        return None
    where = [{"file": place.file, "line": place.line, "symbol": place.symbol} for place in finding.where]
    gain = finding.gain
    return {
        "gain_low_ns": gain.low_ns if gain else None,
        "gain_high_ns": gain.high_ns if gain else None,
        "ranks": list(finding.ranks),
        "where": where,
    }
