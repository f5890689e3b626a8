"""Two of the runs that are served beside each other, compared: what `stepscope compare A B` prints."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from stepscope.core.errors import StepscopeError
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer

__all__ = ["ROUTES"]


def make(opened: Opened) -> list[BaseRoute]:
    compare = opened.compare
    if compare is None:
        return []

    def compared(request: Request) -> Response:
        names = request.query_params.get("a", ""), request.query_params.get("b", "")
        if not all(name in opened.beside for name in names):
            return json_answer(request, {"error": "a and b are names of runs in the list"}, status=404)
        try:
            return json_answer(request, compare(*names))
        except StepscopeError as error:
            return json_answer(request, {"error": str(error)}, status=400)

    return [Route("/api/compare", compared)]


ROUTES = Routes(make=make, of_one_run=False)
