"""Perfetto, served from here: the files of its interface, and a window of the run as a trace for it."""

from collections.abc import Iterator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from stepscope.core.run import Run
from stepscope.timeline import origin, tracks
from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer, nanoseconds
from stepscope.web.perfetto import HOW, interface
from stepscope.web.prepared import prepared
from stepscope.web.trace_text import MOST_SPANS, count, trace_text

__all__ = ["ROUTES"]

_TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html; charset=utf-8"}


def make(opened: Opened) -> list[BaseRoute]:
    def state(request: Request) -> Response:
        found, run = interface(), prepared(opened.run())
        spans = count(run, _window(request, run)) if found else 0
        known = {"version": found.version if found else None, "how": HOW, "spans": spans, "most": MOST_SPANS}
        return json_answer(request, known)

    def trace(request: Request) -> Response:
        run = prepared(opened.run())
        window = _window(request, run)
        spans = count(run, window)
        if spans > MOST_SPANS:
            return PlainTextResponse(
                f"{spans} spans and values are more than the {MOST_SPANS} that are handed over", 413
            )
        return StreamingResponse(_bytes(trace_text(run, window)), media_type="application/json")

    return [Route("/perfetto/{name:path}", _file), Route("/api/perfetto", state), Route("/api/perfetto/trace", trace)]


def _file(request: Request) -> Response:
    found = interface()
    path = found.files.get(request.path_params["name"] or "index.html") if found else None
    if found is None or path is None:
        return Response(status_code=404)
    headers = {"content-security-policy": found.policy}
    return FileResponse(path, headers=headers, media_type=_TYPES.get(path.suffix))


def _window(request: Request, run: Run) -> tuple[int, int]:
    """The window that is asked for, else all of the run."""
    words, first = request.query_params, origin(run)
    last = max((track.last for track in tracks(run)), default=first)
    try:
        return nanoseconds(words.get("from", "0")) + first, nanoseconds(
            words["to"]
        ) + first if "to" in words else last + 1
    except ValueError as wrong:
        raise HTTPException(400, "from and to are whole numbers of ns") from wrong


def _bytes(text: Iterator[str]) -> Iterator[bytes]:
    for piece in text:
        yield piece.encode("utf-8", "replace")


ROUTES = Routes(make=make)
