"""The app itself and the report it draws."""

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from stepscope.render.html import STATIC, app_file, served_html
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer

__all__ = ["ROUTES"]


def make(opened: Opened) -> list[BaseRoute]:
    def page(_request: Request) -> Response:
        return HTMLResponse(served_html({key: one.path for key, one in opened.beside.items()}))

    def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            return Response(status_code=404)
        return Response(app_file(name), media_type=STATIC[name])

    def report(request: Request) -> Response:
        return json_answer(request, opened.document())

    return [Route("/", page), Route("/static/{name}", static), Route("/api/report", report)]


ROUTES = Routes(make=make, of_one_run=False)
