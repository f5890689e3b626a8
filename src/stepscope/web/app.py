"""The application: the routes of all modules, behind checks that hold for each request."""

from collections.abc import Awaitable, Callable
from hmac import compare_digest
from threading import Lock

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from stepscope.core.plugins import PluginGroup
from stepscope.web import Opened, Routes

__all__ = ["ROUTES", "TOKEN_COOKIE", "application"]

ROUTES = PluginGroup("web.routes", Routes)
"""All modules that answer requests."""

_PAGE = "page"  # the module that answers before all others

TOKEN_COOKIE = "stepscope-token"
"""Name of the cookie that holds the token once the address with it was opened."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
_LONGEST = 8192  # bytes of a request's address: a view with filters has a few hundred


def application(opened: Opened, *, hosts: frozenset[str], token: str = "") -> ASGIApp:
    """The application for what was opened.

    `hosts` are the names under which it may be asked, without port; another site that points its own name at this
    machine gets nothing. With a `token`, every request must carry it: `?token=` once, then a cookie.
    """
    return _Guard(Starlette(routes=_routes(opened)), hosts, token)


def _routes(opened: Opened) -> list[BaseRoute]:
    """What is answered about what was opened, and below their names about the runs beside it."""
    below = [Mount(f"/{name}", routes=_routes(one)) for name, one in opened.beside.items()]
    return [*ROUTES.get(_PAGE).make(opened), *below, Mount("", app=_Others(opened))]


class _Others:
    """The routes of all modules but that of the page, which are imported with the first request for one of them."""

    def __init__(self, opened: Opened) -> None:
        self._opened, self._lock = opened, Lock()
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await run_in_threadpool(self._made))(scope, receive, send)

    def _made(self) -> Router:
        with self._lock:
            if self._router is None:
                others = [module for name, module in ROUTES.load().items() if name != _PAGE]
                fitting = [module for module in others if not (self._opened.beside and module.of_one_run)]
                self._router = Router([route for module in fitting for route in module.make(self._opened)])
        return self._router


class _Guard:
    """Answers a request only if it comes by an expected name, is short, reads, and has the token."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        await self._app(scope, receive, _with_headers(send, self._cookie(request)))

    def _refusal(self, request: Request) -> Response | None:
        if len(request.url.path) + len(request.url.query) > _LONGEST:
            return PlainTextResponse("the address is too long", 414)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("this server is read only", 405)
        if int(request.headers.get("content-length") or 0) > 0 or "transfer-encoding" in request.headers:
            return PlainTextResponse("a request has no body here", 413)
        if _name_of(request.headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("this server is asked by another name", 421)
        if self._token and not self._knows(request):
            return PlainTextResponse("open the address with the token that `stepscope view` printed", 403)
        return None

    def _knows(self, request: Request) -> bool:
        given = request.query_params.get("token") or request.cookies.get(TOKEN_COOKIE) or ""
        return compare_digest(given.encode(), self._token.encode())

    def _cookie(self, request: Request) -> bytes:
        if not self._token or "token" not in request.query_params:
            return b""
        return f"{TOKEN_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/".encode()


def _name_of(host: str) -> str:
    """`localhost` of `localhost:8000`, `::1` of `[::1]:8000`."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _with_headers(send: Send, cookie: bytes = b"") -> Callable[..., Awaitable[None]]:
    async def with_headers(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            given = message.get("headers")
            headers = list(given) if isinstance(given, list) else []
            present = {name.lower() for name, _ in headers}
            headers += [header for header in _HEADERS.items() if header[0] not in present]
            if cookie:
                headers.append((b"set-cookie", cookie))
            message = {**message, "headers": headers}
        await send(message)

    return with_headers
