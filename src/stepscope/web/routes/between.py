"""A table of only a part of the time of the run: what `stepscope show TABLE --between FROM TO` prints."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepscope.core.time_slice import began, part_of
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer, nanoseconds
from stepscope.web.routes.tables import table_document

__all__ = ["ROUTES"]


def make(opened: Opened) -> list[BaseRoute]:
    def between(request: Request) -> Response:
        name, given = request.path_params["name"], request.query_params
        try:
            first, last = nanoseconds(given["from"]), nanoseconds(given["to"])
        except (KeyError, ValueError):
            return json_answer(request, {"error": "from and to are whole ns since the start"}, status=400)
        run = opened.run()
        start = began(run)
        part = part_of(run, start + first, start + last) if start is not None and first < last else None
        if part is None:
            lack = {"what": "events in that time", "how": "choose a wider range"}
            return json_answer(request, {"columns": [], "rows": [], "missing": lack})
        found = table_document(part, name)
        if found is None:
            return json_answer(request, {"error": f"there is no table {name}"}, status=404)
        return json_answer(request, found)

    return [Route("/api/between/{name}", between)]


ROUTES = Routes(make=make)
