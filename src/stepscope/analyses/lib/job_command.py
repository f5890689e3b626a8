"""The command that a run recorded."""

import json

import polars as pl

from stepscope.core.run import Run

__all__ = ["job_command"]


def job_command(run: Run) -> tuple[str, ...] | None:
    """Its words, a JSON list in table meta; None where the run does not tell."""
    values = run.optional("meta").filter(pl.col("key") == "command")["value"].drop_nulls()
    if values.is_empty():
        return None
    try:
        words = json.loads(values[0])
    except ValueError:
        return (str(values[0]),)
    return tuple(map(str, words)) if isinstance(words, list) else (str(words),)
