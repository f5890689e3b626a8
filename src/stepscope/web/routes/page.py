"""The app itself and the report it draws: first what its first screen shows, where that is there earlier.

The functions are coroutines, which wait in threads of asyncio: those of Starlette take imports of 40 ms first.
"""

from asyncio import to_thread
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from stepscope.core.errors import StepscopeError
from stepscope.render.app_page import STATIC, app_file, served_html
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer

__all__ = ["ROUTES"]


def make(opened: Opened) -> list[BaseRoute]:
    async def page(_request: Request) -> Response:
        return HTMLResponse(served_html({key: one.path for key, one in opened.beside.items()}))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return Response(status_code=404)
        return Response(app_file(name), media_type=STATIC[name])

    async def first(request: Request) -> Response:
        return await to_thread(_answered, request, lambda: _first(opened))

    async def report(request: Request) -> Response:
        return await to_thread(_answered, request, opened.document)

    return [
        Route("/", page), Route("/static/{name}", static), Route("/api/first", first), Route("/api/report", report),
    ]  # fmt: skip


def _first(opened: Opened) -> dict[str, object]:
    document, whole = opened.first() if opened.first else (opened.document(), True)
    return {"document": document, "whole": whole}


def _answered(request: Request, made: Callable[[], object]) -> Response:
    """A document, or why there is none."""
    try:
        return json_answer(request, made())
    except StepscopeError as error:
        return json_answer(request, {"error": str(error)}, status=500)


ROUTES = Routes(make=make, of_one_run=False)
