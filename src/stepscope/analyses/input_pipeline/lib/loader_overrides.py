"""Settings that the loaders of a run were given from outside, instead of those of the script."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import polars as pl

from stepscope.core.run import Run

__all__ = ["Override", "asked_overrides", "overrides_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What became of one loader: `changed` is (before, after) by setting, empty where it has them already.

    `refused` says why it kept its own; `place` is the file and the line that make it, None where that is unknown.
    """

    place: str | None
    wanted: Mapping[str, Any]
    changed: Mapping[str, tuple[Any, Any]]
    refused: str | None


def overrides_of(run: Run) -> tuple[Override, ...]:
    """One for each loader of each rank that was meant, in their order; none for a run of the script as it is."""
    rows = run.optional("meta").filter(pl.col("key").str.contains(r"^override\b"))
    facts = (json.loads(value) for value in rows["value"].drop_nulls())
    return tuple(_override(fact) for fact in facts if isinstance(fact, dict))


def asked_overrides(run: Run) -> Mapping[str, Any]:
    """The settings that the run was asked to give its loaders."""
    options = run.optional("meta").filter(pl.col("key") == "options")["value"].drop_nulls()
    found = json.loads(options[0]) if len(options) else {}
    asked = found.get("overrides") if isinstance(found, dict) else None
    return asked if isinstance(asked, dict) else {}


def _override(fact: Mapping[str, Any]) -> Override:
    file, line = fact.get("file"), fact.get("line")
    changed = {name: (before, after) for name, (before, after) in (fact.get("set") or {}).items() if before != after}
    return Override(
        place=f"{PurePath(file).name}:{line}" if file else None,
        wanted=fact.get("wanted") or {},
        changed=changed,
        refused=fact.get("refused"),
    )
