"""A server of a run on a free port, as `stepscope view` starts it."""

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from stepscope.core.run import Run
from stepscope.render.json import report_document
from stepscope.report.assemble import assemble
from stepscope.web import Opened
from stepscope.web.app import application
from stepscope.web.serving import listening

__all__ = ["answer", "opened", "served"]


def opened(run: Run) -> Opened:
    """What is served of a run."""
    document = report_document(assemble(run))
    return Opened(run=lambda: run, document=lambda: document)


@contextmanager
def served(what: Opened, *, token: str = "") -> Iterator[str]:
    """The address at which it is served, until the block ends."""
    socket = listening("127.0.0.1", 0)
    hosts = frozenset(("localhost", "127.0.0.1", "::1"))
    server = uvicorn.Server(
        uvicorn.Config(application(what, hosts=hosts, token=token), log_level="warning", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{socket.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(timeout=30)
        socket.close()


def answer(
    address: str, *, method: str = "GET", data: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of what the server answers."""
    request = urllib.request.Request(address, data=data, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answered:
            return answered.status, dict(answered.headers.items()), answered.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, dict(refused.headers.items()), refused.read()
