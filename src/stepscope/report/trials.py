"""The command that tries the advice of a finding: loader settings can be tried without touching the script."""

import json
import re
from dataclasses import replace
from shlex import join

import polars as pl

from stepscope.core.finding import Finding
from stepscope.core.run import Run

__all__ = ["command_of", "with_trial"]

_TUNED = re.compile(r"\b(num_workers|prefetch_factor|persistent_workers|pin_memory)=")
"""Settings that `stepscope tune loader` tries, in the first advice of a finding."""


def command_of(run: Run) -> tuple[str, ...] | None:
    """The command of a run directory: a JSON list in table meta."""
    values = run.optional("meta").filter(pl.col("key") == "command")["value"]
    if values.is_empty():
        return None
    try:
        words = json.loads(values[0])
    except ValueError:
        return (values[0],)
    return tuple(map(str, words)) if isinstance(words, list) else (str(words),)


def with_trial(finding: Finding, command: tuple[str, ...] | None) -> Finding:
    """The finding with a command that tries its first advice, where there is one and it names none."""
    first = finding.advice[:1]
    if finding.trial or not command or not any(_TUNED.search(f"{advice.text} {advice.code}") for advice in first):
        return finding
    return replace(finding, trial=f"stepscope tune loader -- {join(command)}")
