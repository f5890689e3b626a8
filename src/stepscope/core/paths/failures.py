"""What the libraries of the providers raise, told in one way: what happened, where, and what to do next."""

import sys
from collections.abc import Iterator

from stepscope.core.errors import BadInput
from stepscope.core.paths.schemes import SCHEMES, listing

__all__ = ["BrokenTransferError", "failures", "lasting", "missing", "told"]

_FAMILIES = (
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)
"""Module and base class of the errors that are not an OSError, a TimeoutError or a ValueError."""

_REFUSED = (401, 403)
_MISSING = (404, 410)
_BUSY = (408, 425, 429, 499)
_SERVER = 500
_NO_CREDENTIALS = (
    "NoCredentials", "PartialCredentials", "CredentialRetrieval", "ProfileNotFound", "TokenRetrieval", "SSOToken",
    "UnauthorizedSSOToken", "DefaultCredentials", "RefreshError", "ClientAuthentication", "CredentialUnavailable",
)  # fmt: skip
_NO_ACCOUNT = "connect to account"  # how adlfs begins a ValueError when it lacks an account or a key
_UNREACHABLE = (
    "ConnectError", "ConnectorError", "ConnectionError", "gaierror", "ServiceRequestError", "ConnectionRefusedError",
    "EndpointConnectionError", "ClientConnectorDNSError", "TransportError", "ProxyError", "SSLError",
)  # fmt: skip
_WORDS = 160  # of a library's own message: enough for its reason, and no dump of a request


class BrokenTransferError(OSError):
    """Bytes that could not be had, though the server was asked several times; the text says which."""


def failures() -> tuple[type[BaseException], ...]:
    """What an operation on a remote file may raise, of the libraries that are loaded."""
    loaded = [getattr(sys.modules[module], name) for module, name in _FAMILIES if module in sys.modules]
    return (OSError, TimeoutError, ValueError, *loaded)


def lasting(error: BaseException) -> bool:
    """Whether asking again is useless: refused, gone, no credentials, a request that cannot be right."""
    status, _ = _answer(error)
    if status is not None:
        return status < _SERVER and status not in _BUSY
    return isinstance(error, FileNotFoundError | PermissionError) or _named(error, _NO_CREDENTIALS)


def missing(error: BaseException) -> bool:
    """Whether the error says that there is nothing of that name."""
    status, _ = _answer(error)
    if status is not None:
        return status in _MISSING
    lower = [cause for cause in _chain(error) if not isinstance(cause, FileNotFoundError)]
    return isinstance(error, FileNotFoundError) and not any(isinstance(cause, failures()) for cause in lower)


def told(url: str, error: BaseException, *, doing: str = "") -> BadInput:
    """The error as a message about `url`, which must be one that may be shown."""
    scheme = SCHEMES[url.partition("://")[0]]
    status, code = _answer(error)
    answer = ", ".join(filter(None, (f"HTTP {status}" if status else "", code)))
    listed = listing(url)
    if missing(error):
        return BadInput(url, f"there is no such {_nothing(code)}", where=doing, next_step=listed)
    if _named(error, _NO_CREDENTIALS) or _NO_ACCOUNT in str(error):
        why = f"no usable credentials for {scheme.name} were found ({_reason(error)})"
        return BadInput(url, why, where=doing, next_step=scheme.credentials)
    if status in _REFUSED or (status is None and isinstance(error, PermissionError)):
        why = f"access was refused ({answer or _reason(error)})"
        return BadInput(url, why, where=doing, next_step=f"{scheme.credentials} {listed}")
    if status is not None and (status >= _SERVER or status in _BUSY):
        return BadInput(url, f"the server failed ({answer}), also when asked again", where=doing,
                        next_step=f"Try again later. {listed}")  # fmt: skip
    if status is not None:
        return BadInput(url, f"the request was not accepted ({answer})", where=doing, next_step=listed)
    if isinstance(error, BrokenTransferError):
        return BadInput(url, str(error), where=doing, next_step=f"Try again. {listed}")
    endpoint = f"Check the network and the endpoint ({scheme.endpoint})."
    if any(isinstance(cause, TimeoutError) for cause in _chain(error)) or _named(error, ("Timeout",)):
        return BadInput(url, "no answer in time", where=doing, next_step=f"{endpoint} {listed}")
    if _named(error, _UNREACHABLE):
        why = f"the server cannot be reached ({_reason(error)})"
        return BadInput(url, why, where=doing, next_step=endpoint)
    return BadInput(url, f"it cannot be used ({_reason(error)})", where=doing, next_step=listed)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, outermost first."""
    known = failures()
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen and (isinstance(current, known) or not seen):
        seen.append(current)
        yield current
        current = current.__cause__ or current.__context__


def _answer(error: BaseException) -> tuple[int | None, str]:
    """The HTTP status and the provider's word for it, if a server answered at all."""
    for cause in _chain(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            word = str(response.get("Error", {}).get("Code", ""))
            return status, "" if word.isdigit() else word
        for name in ("status", "status_code", "code"):  # aiohttp, azure, gcsfs
            value = getattr(cause, name, None)
            if isinstance(value, int | str) and str(value).isdigit() and int(value):
                known = getattr(cause, "error_code", None)
                return int(value), str(getattr(known, "value", known) or "")
    return None, ""


def _named(error: BaseException, names: tuple[str, ...]) -> bool:
    kinds = [kind.__name__ for cause in _chain(error) for kind in type(cause).__mro__]
    return any(name in kind for kind in kinds for name in names)


def _nothing(code: str) -> str:
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return "bucket" if code == "NoSuchBucket" else "container"
    return "file or folder"


def _reason(error: BaseException) -> str:
    """The library's name for the error and the beginning of its first line, without any URL: one may be signed."""
    innermost = list(_chain(error))[-1]
    words = [word for word in str(innermost).split("\n")[0].split() if "://" not in word and "?" not in word]
    text = " ".join(words)
    return f"{type(innermost).__name__}: {text[:_WORDS]}" if text else type(innermost).__name__
