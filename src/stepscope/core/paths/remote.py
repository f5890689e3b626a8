"""A file or folder that a URL names, with the methods of a path: universal_pathlib over fsspec.

Credentials are the libraries' own (environment, their configuration files), as are the environment variables for
another endpoint. What a URL holds of secrets (a password, the query of a signed URL) goes with the requests and never
into a name, so it is in no message and in no report. Every operation has a time limit. A failure is BadInput; that
nothing is there is FileNotFoundError, as for a local path.
"""

import asyncio
import errno
import io
import logging
import os
from collections.abc import Coroutine, Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import IO, Any, BinaryIO, Literal, TypeVar, overload

from fsspec.asyn import AsyncFileSystem
from fsspec.config import conf
from upath._stat import UPathStatResult
from upath.extensions import ProxyUPath

from stepscope.core.errors import BadInput
from stepscope.core.paths.failures import failures, missing, told
from stepscope.core.paths.schemes import SCHEMES, Address
from stepscope.core.paths.stream import ByteSource, Stream

__all__ = ["Remote", "remote"]

T = TypeVar("T")

_WAIT = 30.0  # seconds for one question, a listing or a size; some libraries would ask again for minutes
_WHOLE = 24 * 3600.0  # seconds for a whole file from a server that sends no parts; it ends earlier when nothing comes
_SLOWEST = 50_000  # bytes a second; slower, and a transfer is given up
_BUFFER = 1024 * 1024
_TALKATIVE = ("adlfs", "aiobotocore", "aiohttp", "asyncio", "azure", "botocore", "fsspec", "gcsfs", "google", "s3fs")
"""Loggers that print tracebacks of what was tried to stderr, where no program has set up logging."""

_VERSION = ("ETag", "etag", "md5Hash", "generation", "updated", "LastModified", "last_modified", "size")
"""What tells one version of an object from another; each provider has some of them."""


class Remote(ProxyUPath):
    """A file or folder elsewhere. `str` of it is a URL without secrets."""

    __slots__ = ()

    def __str__(self) -> str:
        url = str(self.__wrapped__)
        account = self.storage_options.get("account_name")
        scheme, _, rest = url.partition("://")
        if not account or SCHEMES[scheme].extra != "azure":
            return url
        container, slash, path = rest.partition("/")
        return f"{scheme}://{container}@{account}.dfs.core.windows.net{slash}{path}"

    @overload  # type: ignore[override]  # bytes only: nothing reads text from a stream
    def open(self, mode: Literal["rb"]) -> BinaryIO: ...
    @overload
    def open(self, mode: str) -> IO[Any]: ...
    def open(self, mode: str) -> IO[Any]:
        """A stream of the bytes, read ahead and resumed where the connection breaks. The only mode is `rb`."""
        if mode != "rb":
            raise ValueError(f"{self}: opened with mode {mode!r}, and there is only 'rb'")
        if self._is_web():
            return self._opened_web()
        details = self._details()
        if details["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(self))
        if _packed_by_header(details):
            why = "stored with Content-Encoding: gzip, so it cannot be read in pieces"
            raise BadInput(self, why, next_step="Take that header off: the bytes stay packed, and are known as such.")
        return self._opened(details)

    def read_bytes(self) -> bytes:
        """All bytes of the file."""
        with self.open("rb") as file:
            return file.read()

    def write_bytes(self, data: bytes) -> int:
        """Write a file, whole or not at all; what was there is replaced. Raises BadInput."""
        self.check_writable()
        try:
            self._ask("pipe_file", self.path, data, limit=_WAIT + len(data) / _SLOWEST)
        except FileNotFoundError as error:
            raise told(str(self), error) from error
        return len(data)

    def check_writable(self) -> None:
        """Raise BadInput for a place that takes no files; whether the provider would take one is not asked."""
        if not SCHEMES[self.protocol].writable:
            raise BadInput(self, "a web server takes no files", next_step="Write to a bucket or to a local file.")
        if not self.name or self.parent == self:
            raise BadInput(self, "no file is named", next_step=f"Give a name: {str(self).rstrip('/')}/report.html")

    def stat(self, *, follow_symlinks: bool = True) -> UPathStatResult:
        """Size, kind and time of change, as far as the provider says them."""
        return UPathStatResult.from_info(self._details())

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is a file or a folder. Raises BadInput if that cannot be found out; so do the next two."""
        try:
            self._details()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there is a folder."""
        try:
            return bool(self._details()["type"] == "directory")
        except FileNotFoundError:
            return False

    def is_file(self) -> bool:
        """Whether there is a file."""
        try:
            return bool(self._details()["type"] == "file")
        except FileNotFoundError:
            return False

    def iterdir(self) -> Iterator["Remote"]:
        """What the folder holds, in the order of names."""
        own = self.path.rstrip("/")
        names = {str(entry["name"]).rstrip("/") for entry in self._ask("ls", self.path, detail=True)} - {own}
        if self._is_web():
            names = {name for name in names if "?" not in name and "#" not in name}  # links that sort the listing
            if not names:
                raise BadInput(self, "this web page lists no files", next_step="Give the URL of a file.")
        for name in sorted(names):
            yield self / name.rpartition("/")[2]

    def glob(self, pattern: str, **options: Any) -> Iterator["Remote"]:
        """What the folder holds that matches, in the order of names; `*` stays within a name, `**` does not."""
        first, _, rest = pattern.partition("/")
        if first == "**":
            rest = rest or "*"
            yield from self.glob(rest)
        for found in self.iterdir():
            if fnmatchcase(found.name, first):
                if not rest:
                    yield found
                elif found.is_dir():
                    yield from found.glob(pattern if first == "**" else rest)

    def _opened_web(self) -> IO[bytes]:
        from stepscope.core.paths.web import look, part, whole

        fs, path = self._filesystem(), self.path
        seen = self._wait(look(fs, path))
        if seen.size is None or not seen.parts:
            return self._wait(whole(fs, path, seen.size), _WHOLE)
        source = ByteSource(url=str(self), size=seen.size, fetch=partial(part, fs, path, seen), loop=fs.loop)
        return io.BufferedReader(Stream(source), _BUFFER)

    def _opened(self, details: dict[str, Any]) -> BinaryIO:
        fs, path, version = self._filesystem(), self.path, _version(details)

        async def fetch(start: int, end: int) -> bytes:
            data: bytes = await fs._cat_file(path, start=start, end=end)
            return data

        def check() -> None:
            fs.invalidate_cache()
            if _version(self._details()) != version:
                raise BadInput(self, "it was changed while it was read", next_step="Read it again.")

        source = ByteSource(url=str(self), size=int(details["size"]), fetch=fetch, loop=fs.loop)
        return io.BufferedReader(Stream(source, at_end=check), _BUFFER)

    def _is_web(self) -> bool:
        return SCHEMES[self.protocol].extra == "http"

    def _details(self) -> dict[str, Any]:
        """What the provider says of the file or folder: `type`, `size` and others. Raises FileNotFoundError."""
        details = dict(self._ask("info", self.path))
        if self._is_web():
            from stepscope.core.paths.web import kind

            details["type"] = kind(self.name, details)
        return details

    def _filesystem(self) -> AsyncFileSystem:
        try:
            fs = self.fs
        except failures() as error:
            raise told(str(self), error) from error
        if not isinstance(fs, AsyncFileSystem):
            raise TypeError(f"{type(fs).__name__} is not asynchronous")
        return fs

    def _ask(self, method: str, *arguments: Any, limit: float | None = None, **options: Any) -> Any:
        return self._wait(getattr(self._filesystem(), f"_{method}")(*arguments, **options), limit)

    def _wait(self, work: Coroutine[Any, Any, T], limit: float | None = None) -> T:
        """The result of `work`, which runs in fsspec's own thread, so that Ctrl-C is never held up by it."""
        coming = asyncio.run_coroutine_threadsafe(work, self._filesystem().loop)
        try:
            return coming.result(limit or _WAIT)
        except failures() as error:
            if missing(error):
                raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", str(self)) from error
            raise told(str(self), error) from error
        finally:
            coming.cancel()


def remote(address: Address) -> Remote:
    """The file or folder at a URL. Nothing is asked yet. Raises BadInput for a URL that is none."""
    options: dict[str, Any] = {}
    for name in _TALKATIVE:
        logging.getLogger(name).addHandler(logging.NullHandler())
    if SCHEMES[address.scheme].extra == "http":
        from stepscope.core.paths.web import client_options

        options = client_options(address, conf.get(address.scheme, {}).get("client_kwargs", {}))
    if SCHEMES[address.scheme].extra == "gcs":  # gcsfs asks for the kind of bucket at every call otherwise, over gRPC
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    url = address.url.rstrip("/")
    try:
        return Remote(url, **options)
    except ValueError as error:
        raise told(url, error) from error


def _packed_by_header(details: dict[str, Any]) -> bool:
    """Whether Google's or Azure's library would unpack each part by itself, of which only the first can be."""
    settings = details.get("content_settings") or {}
    return "gzip" in (details.get("contentEncoding"), settings.get("content_encoding"))


def _version(details: dict[str, Any]) -> tuple[object, ...]:
    return tuple(details.get(key) for key in _VERSION)
