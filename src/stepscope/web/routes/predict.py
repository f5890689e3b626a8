"""What other settings of the loader would make of a step: what `stepscope predict loader` prints."""

from collections.abc import Mapping
from math import inf, isfinite

import polars as pl
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepscope.analyses.input_pipeline.loader_transforms import loader_transforms
from stepscope.core.errors import BadInput, MissingData
from stepscope.core.run import Run
from stepscope.models.loader_model import LoaderChange
from stepscope.models.loader_table import loader_table
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer

__all__ = ["ROUTES"]

MOST_WORKERS = 16
"""Workers of the curve: most machines of one device have no more cores to spare."""

_MOST_FACTOR = 1000.0  # times as fast: as good as without it


def make(opened: Opened) -> list[BaseRoute]:
    def predict(request: Request) -> Response:
        try:
            change = _change(request.query_params)
        except ValueError as wrong:
            return json_answer(request, {"error": str(wrong)}, status=400)
        return json_answer(request, prediction(opened.run(), change))

    return [Route("/api/predict", predict)]


def prediction(run: Run, change: LoaderChange) -> dict[str, object]:
    """Rows by number of workers, the settings of the run, what can be made faster, and what trials have measured.

    Or what is missing.
    """
    told: dict[str, object] = {
        "names": _names(run), "settings": _settings(run), "reads": _reads(run), "measured": _measured(run), "rows": [],
        "missing": None,
    }  # fmt: skip
    try:
        rows = loader_table(run, range(MOST_WORKERS + 1), change)
    except MissingData as lack:
        return told | {"missing": {"what": lack.what, "how": lack.how}}
    except BadInput as wrong:
        return told | {"missing": {"what": wrong.why, "how": wrong.next_step}}
    return told | {"rows": rows.drop("rank").to_dicts()}


def _change(words: QueryParams) -> LoaderChange:
    """The change that a request names. Raises ValueError."""
    faster = []
    for one in words.getlist("faster"):
        name, _, factor = one.rpartition("=")
        times = float(factor)
        if not name or not isfinite(times) or times < 1:
            raise ValueError("faster is NAME=NUMBER with a number from 1 up")
        faster.append((name, inf if times >= _MOST_FACTOR else times))
    return LoaderChange(
        faster=tuple(faster), prefetch=_positive(words, "prefetch"), batch_size=_positive(words, "batch_size")
    )


def _positive(words: Mapping[str, str], name: str) -> int | None:
    if name not in words:
        return None
    number = int(words[name])
    if number < 1:
        raise ValueError(f"{name} is a whole number from 1 up")
    return number


def _names(run: Run) -> list[str]:
    """What a batch is made by, the longest first."""
    try:
        table = loader_transforms(run)
    except MissingData:
        return []
    sums = table.drop_nulls("name").group_by("name").agg(pl.col("own").sum()).sort("own", descending=True)
    return list(sums["name"])


def _reads(run: Run) -> bool:
    """Whether reads of files were recorded, so that their latency can be another."""
    return run.where("loader_spans", pl.col("stage") == "read", "stage").height > 0


def _measured(run: Run) -> list[dict[str, object]]:
    """Trials of a tuning, by number of workers; `other`: other settings than that differ too."""
    settings = _settings(run) or {}
    trials = run.optional("trials").drop_nulls("step")
    other = pl.any_horizontal(pl.col("prefetch_factor", "persistent_workers", "pin_memory").is_not_null())
    own = settings.get("workers")
    rows = trials.with_columns(workers=pl.col("num_workers").fill_null(pl.lit(own, pl.Int64)), other=other)
    return rows.select("setting", "workers", "step", "low", "high", "other").drop_nulls("workers").to_dicts()


def _settings(run: Run) -> dict[str, int | None] | None:
    """Of the loader that training reads; None where it is not known."""
    table = run.optional("loaders", "train", "num_workers", "prefetch_factor", "batch_size").filter(pl.col("train"))
    if table.is_empty():
        return None
    workers, prefetch, batch = table.select("num_workers", "prefetch_factor", "batch_size").row(0)
    return {"workers": workers, "prefetch": prefetch, "batch_size": batch}


ROUTES = Routes(make=make)
