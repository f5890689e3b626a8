"""Running the server: which address it has, under which names it may be asked, and when to open a browser."""

import errno
import ipaddress
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from urllib.parse import quote

import uvicorn

from stepscope.core.errors import BadInput
from stepscope.web import Opened
from stepscope.web.app import application

__all__ = ["Serving", "is_loopback", "listening"]

_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_NOTICED = 0.1  # s: the signal handler of polars lets waiting go on, so Ctrl-C is seen when we look up
_PATIENCE = 5.0  # s: what a browser takes to start


def is_loopback(host: str) -> bool:
    """True if only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Raises BadInput."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(64)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise BadInput(
            f"{host}:{port}" if port else host,
            f"cannot listen there: {error.strerror}",
            next_step="leave out --port to get a free one" if taken else "leave out --host to listen on this machine",
        ) from error
    return made


class Serving:
    """A server on a socket, in a thread of its own: what it serves may be read meanwhile. `say` is told the address."""

    def __init__(self, made: socket.socket, host: str, *, browser: bool, say: Callable[[str], None]) -> None:
        self._made, self._host, self._say = made, host, say
        self._browser = threading.Thread(target=self._open_browser, daemon=True) if browser else None
        self._address = ""
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, opened: Opened) -> None:
        """Serve what was opened, and open a browser; the second time nothing."""
        if self._thread is not None:
            return
        token = "" if is_loopback(self._host) else secrets.token_urlsafe(24)
        shown = socket.gethostname() if self._host in ("0.0.0.0", "::") else self._host
        name = f"[{shown}]" if ":" in shown else shown
        self._address = f"http://{name}:{self._made.getsockname()[1]}/" + (f"?token={quote(token)}" if token else "")
        hosts = _LOCAL | {self._host, shown} | (_addresses() if token else frozenset())
        self._server = uvicorn.Server(
            uvicorn.Config(
                application(opened, hosts=hosts, token=token), log_level="warning", lifespan="off", ws="none",
                h11_max_incomplete_event_size=32_768, timeout_graceful_shutdown=1,
            )
        )  # fmt: skip
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._made]}, daemon=True)
        self._thread.start()
        self._say(self._address)
        if self._browser is not None:
            self._browser.start()

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_NOTICED)

    def linger(self, told: threading.Event) -> None:
        """Wait a moment until a page that is open, or that is being opened, knows that there is no run: `told`."""
        opening = self._browser is not None and self._browser.is_alive()
        if self._server is not None and (opening or self._server.server_state.total_requests):
            told.wait(_PATIENCE)

    def stop(self) -> None:
        """Stop serving at once; requests that are answered just now are."""
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(_PATIENCE)

    def _open_browser(self) -> None:
        """Open it; then wait for its first request, for a moment."""
        if webbrowser.open(self._address):
            until = time.monotonic() + _PATIENCE
            while time.monotonic() < until and self._server and not self._server.server_state.total_requests:
                time.sleep(_NOTICED)


def _addresses() -> frozenset[str]:
    """The addresses of this machine, as another may name it."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found) | {socket.getfqdn()}
