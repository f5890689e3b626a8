"""What tuning found as plain dicts and lists, for other programs. Times are ns, shares and ratios are numbers."""

from collections.abc import Sequence
from dataclasses import asdict

from stepscope.compare.statistics import CONFIDENCE
from stepscope.experiments.change import CodeChange
from stepscope.experiments.loader import Row, TuneAnswer
from stepscope.experiments.page import sentence_of
from stepscope.experiments.trial_result import Setting
from stepscope.experiments.trials import BASE
from stepscope.render.format import text

__all__ = ["SCHEMA", "VERSION", "document_of"]

SCHEMA = "stepscope-tune-loader"
"""Value of the key `schema`."""

VERSION = 2
"""Raised when a key is removed or changes its meaning; new keys do not raise it."""


def document_of(
    result: TuneAnswer, change: CodeChange | None, command: Sequence[str], folder: str
) -> dict[str, object]:
    """Everything on the page."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "command": list(command),
        "folder": folder,
        "base": BASE,
        "why": result.why,
        "sentence": text(sentence_of(result)),
        "winner": None if result.winner is None else dict(result.winner.values),
        "confidence": CONFIDENCE,
        "own": asdict(result.loader),
        "tried": [_row(row) for row in result.rows],
        "change": None if change is None else asdict(change),
        "trials": result.trials,
        "seconds": result.seconds,
        "other_programs_ratio": result.others,
    }


def _row(row: Row) -> dict[str, object]:
    return {
        "setting": _setting(row.setting),
        "median_ns": row.median,
        "step_ns": None
        if row.step is None
        else {"step": row.step.estimate, "low": row.step.low, "high": row.step.high},
        "data_wait_ratio": row.wait,
        "times_as_fast": None if row.ratio is None else asdict(row.ratio),
        "trials": row.trials,
        "steps": row.steps,
        "left_out": row.left_out,
    }


def _setting(setting: Setting) -> dict[str, int | bool | str]:
    return dict(setting.values)
