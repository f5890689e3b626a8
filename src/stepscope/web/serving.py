"""Running the server: which address it has, under which names it may be asked, and when to open a browser."""

import errno
import ipaddress
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from urllib.parse import quote

import uvicorn

from stepscope.core.errors import BadInput
from stepscope.web import Opened
from stepscope.web.app import application

__all__ = ["is_loopback", "listening", "serve"]

_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))


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


def serve(opened: Opened, made: socket.socket, host: str, *, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C. `say` is told the address."""
    port = made.getsockname()[1]
    token = "" if is_loopback(host) else secrets.token_urlsafe(24)
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
    name = f"[{shown}]" if ":" in shown else shown
    address = f"http://{name}:{port}/" + (f"?token={quote(token)}" if token else "")
    hosts = _LOCAL | {host, shown} | (_addresses() if token else frozenset())
    app = application(opened, hosts=hosts, token=token)
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", h11_max_incomplete_event_size=32_768, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    say(address)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    server.run(sockets=[made])


def _addresses() -> frozenset[str]:
    """The addresses of this machine, as another may name it."""
    try:
        found = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return frozenset()
    return frozenset(str(address[0]) for *_, address in found) | {socket.getfqdn()}
