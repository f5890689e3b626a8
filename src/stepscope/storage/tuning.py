"""The folder of a tuning: the run of the script as it is, and what its trials measured."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from stepscope.core.errors import BadInput
from stepscope.core.paths import AnyPath
from stepscope.core.schema import TABLES, polars_schema
from stepscope.run_format.files import TUNING

__all__ = ["Tuning", "tuning_in"]

_SETTINGS = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """`base` is the run folder of the script as it is, `trials` the core table of that name."""

    base: Path
    trials: pl.DataFrame


def tuning_in(folder: AnyPath) -> Tuning | None:
    """What a folder of this machine holds of a tuning that has ended; None for any other path.

    Raises BadInput for a tuning whose file is damaged.
    """
    if not isinstance(folder, Path) or not _there(folder / TUNING):
        return None
    try:
        told = json.loads((folder / TUNING).read_text(encoding="utf-8"))
        rows = [_row(row) for row in told["tried"]]
        base = folder / told["base"]
        if base.parent != folder or base.name == "..":
            raise ValueError("its first trial is not in this folder")
        return Tuning(base=base, trials=pl.DataFrame(rows, schema=polars_schema(TABLES["trials"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pl.exceptions.PolarsError) as error:
        how = f"Open one of its trials: `stepscope report {folder}/NAME`."
        raise BadInput(folder / TUNING, f"is not what `stepscope tune` writes: {error}", next_step=how) from error


def _there(path: Path) -> bool:
    """Whether it is a file that can be seen; what is wrong with its folder is told by who opens that."""
    try:
        return path.is_file()
    except OSError:
        return False


def _row(row: Mapping[str, Any]) -> dict[str, object]:
    setting, step = row["setting"], row["step_ns"] or {}
    return {
        "setting": ", ".join(f"{name}={value}" for name, value in setting.items()) or "as it is",
        **{name: setting.get(name) for name in _SETTINGS},
        **{name: step.get(name) for name in ("step", "low", "high")},
        "data_wait": row["data_wait_ratio"],
        "trials": row["trials"],
        "steps": row["steps"],
        "left_out": row["left_out"],
    }
