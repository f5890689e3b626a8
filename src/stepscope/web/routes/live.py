"""Whether the run is still in progress, and news of it as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from stepscope.web import Opened, Routes
from stepscope.web.answers import json_answer

__all__ = ["ROUTES"]

_EVERY = 0.5  # seconds
_BEAT = 20  # looks without news after which a line is sent, so that a closed page is noticed


def make(opened: Opened) -> list[BaseRoute]:
    def state(request: Request) -> Response:
        told, version = opened.news()
        return json_answer(request, {"state": told, "version": version})

    def live(_request: Request) -> Response:
        return StreamingResponse(_events(opened), media_type="text/event-stream")

    return [Route("/api/state", state), Route("/api/live", live)]


async def _events(opened: Opened) -> AsyncIterator[str]:
    last: tuple[str, int] | None = None
    quiet = 0
    while last is None or last[0] == "running":
        news = await run_in_threadpool(opened.news)
        if news != last:
            last, quiet = news, 0
            yield f"data: {json.dumps({'state': news[0], 'version': news[1]})}\n\n"
        elif quiet >= _BEAT:
            quiet = 0
            yield ": still here\n\n"
        quiet += 1
        await asyncio.sleep(_EVERY)


ROUTES = Routes(make=make, of_one_run=False)
