"""The list of all tables, and each of them whole: what `stepscope show` prints."""

from functools import partial

import polars as pl
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepscope.core.boundary import Failure, attempt
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.core.schema import TABLES, Column
from stepscope.render.frames import moments
from stepscope.timeline import drawn
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer

__all__ = ["ANALYSES", "ROUTES", "listed", "table_document"]

ANALYSES = PluginGroup("analyses", Analysis)
"""All analyses."""

MOST_ROWS = 200_000
"""Rows of a table that a browser holds without trouble; of more the first are sent, and the page says so."""

_EXACT = 2**53  # whole numbers from here on are not exact in JavaScript


def listed() -> list[dict[str, str]]:
    """Name, meaning of a row and kind of every table, as in `stepscope show --list`."""
    analyses = {
        name.replace("-", "_"): {"row": _first_sentence(ANALYSES.page(name)), "kind": "analysis"}
        for name in ANALYSES.names()
    }
    recorded = {name: {"row": "", "kind": "recorded"} for name in sorted(TABLES) if name not in analyses}
    return [{"name": name, **more} for name, more in {**analyses, **recorded}.items()]


def _first_sentence(page: str) -> str:
    paragraph = " ".join(page.strip().partition("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + stop.strip()


def table_document(run: Run, name: str) -> dict[str, object] | None:
    """A table with the meaning of its columns and its rows, or what it lacks; None if there is none of that name."""
    analysis = name.replace("_", "-")
    if analysis in ANALYSES.names():
        compute, columns = ANALYSES.get(analysis), ANALYSES.get(analysis).columns
        page = " ".join(ANALYSES.page(analysis).strip().partition("\n\n")[0].split())
    elif name in TABLES:
        compute, columns, page = partial(_recorded, table=name), TABLES[name], ""  # type: ignore[assignment]
    else:
        return None
    head: dict[str, object] = {
        "name": name,
        "page": page,
        "columns": [],
        "rows": [],
        "height": 0,
        "missing": None,
        "began": None,
        "clock": None,
    }
    try:
        frame = attempt(name, lambda: compute(run))
    except MissingData as lack:
        return {**head, "missing": {"what": lack.what, "how": lack.how}}
    if isinstance(frame, Failure):
        return {**head, "missing": {"what": frame.what, "how": frame.how}}
    filled, began = _filled(columns, frame)
    clock = next((column.clock for column in columns if column.clock is not None), None)
    if began is None or clock is None or not drawn(run, clock):
        return {**head, **filled}
    return {**head, **filled, "began": str(began), "clock": clock}


def _recorded(run: Run, *, table: str) -> pl.DataFrame:
    return run.optional(table)


def _filled(columns: tuple[Column, ...], frame: pl.DataFrame) -> tuple[dict[str, object], int | None]:
    """Columns and rows. Moments are times since the first of the table, which is told too: a clock says nothing."""
    known = [column for column in columns if column.name in frame.columns]
    of_day = [name for name in moments(known) if frame[name].dtype.is_integer()]
    firsts = [first for name in of_day if isinstance(first := frame[name].min(), int)]
    height, frame = frame.height, frame.head(MOST_ROWS)
    began = min(firsts, default=None)
    if began is not None:
        frame = frame.with_columns(pl.col(of_day) - began)
    described = [
        {
            "name": column.name + (", since first" if column.name in of_day else ""),
            "unit": column.unit,
            "meaning": column.meaning,
            "decimal": column.type.is_float(),
        }
        for column in known
    ]
    cells = frame.select(_cells(frame, column.name) for column in known)
    return {"columns": described, "rows": cells.rows(), "height": height}, began


def _cells(frame: pl.DataFrame, name: str) -> pl.Expr:
    """A column as JSON can hold it: lists joined, and numbers that JavaScript would round as text."""
    kind, column = frame.schema[name], pl.col(name)
    if isinstance(kind, pl.List):
        return column.cast(pl.List(pl.String)).list.join(", ")
    if kind.is_integer():
        largest = frame[name].abs().max()
        return column.cast(pl.String) if isinstance(largest, int) and largest >= _EXACT else column
    return column


def make(opened: Opened) -> list[BaseRoute]:
    def tables(request: Request) -> Response:
        return json_answer(request, listed())

    def table(request: Request) -> Response:
        name = request.path_params["name"]
        found = table_document(opened.run(), name)
        if found is None:
            return json_answer(request, {"error": f"there is no table {name}"}, status=404)
        return json_answer(request, found)

    return [Route("/api/tables", tables), Route("/api/tables/{name}", table)]


ROUTES = Routes(make=make)
