"""What is peculiar to web servers: how they are asked, parts of files, and lists of folders."""

import asyncio
import base64
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import aiohttp
from fsspec.implementations.http import HTTPFileSystem

from stepscope.core.errors import BadInput
from stepscope.core.paths.failures import BrokenTransferError, failures, lasting
from stepscope.core.paths.schemes import Address

__all__ = ["WebFile", "client_options", "kind", "look", "part", "whole"]

_CONNECT = 15.0  # seconds for a connection, which else may take minutes
_SILENCE = 60.0  # seconds without a byte
_PARTIAL = 206
_NOTHING = 416  # the answer to a part of an empty file
_TRIES = 5
_PAUSE = 0.2  # seconds before the second try, twice as long before each further one
_IN_MEMORY = 8 * 1024 * 1024
_FILES = (".json", ".gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebFile:
    """What the server says of a file: its size in bytes, whether it sends parts of it, and its version (ETag).

    None is what it does not say.
    """

    size: int | None
    parts: bool
    version: str | None = None


def client_options(address: Address, configured: Mapping[str, Any]) -> dict[str, Any]:
    """Options for fsspec: what is secret in the URL, proxies and ~/.netrc, and bytes as they are stored.

    `configured` is the client's part of fsspec's own configuration; it comes first.
    """
    client: dict[str, Any] = {
        "auto_decompress": False,  # a trace is known by its content, packed or not
        "headers": {"Accept-Encoding": "identity"},
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE),
        "trust_env": True,
        **configured,
    }
    if address.user or address.password:
        login = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
        client["headers"] = {**client["headers"], "Authorization": f"Basic {login}"}
    options: dict[str, Any] = {"client_kwargs": client}
    if address.query:
        options["params"] = list(address.query)
    return options


def kind(name: str, details: Mapping[str, Any]) -> str:
    """`file`, `directory` for a page that may list one, or `page`; `details` is what fsspec knows of the URL.

    A page in the place of a data file is what servers send that want a login: there is no such file then.
    """
    if details.get("mimetype") != "text/html":
        return "file"
    return "page" if name.lower().endswith(_FILES) else "directory"


async def look(fs: HTTPFileSystem, url: str) -> WebFile:
    """Ask for one byte: unlike a HEAD, a signed URL allows it, and the answer shows whether parts can be had."""
    async with await _answer(fs, url, 0, 1) as answer:
        if answer.status == _NOTHING:
            return WebFile(size=0, parts=True)
        answer.raise_for_status()
        if answer.status == _PARTIAL:
            return WebFile(size=_total(answer), parts=_total(answer) is not None, version=answer.headers.get("ETag"))
        length = answer.headers.get("Content-Length", "")
        return WebFile(size=int(length) if length.isdigit() else None, parts=False)


async def part(fs: HTTPFileSystem, url: str, seen: WebFile, start: int, end: int) -> bytes:
    """The bytes from `start` to before `end`, fewer if the connection breaks. Raises BadInput for another version."""
    async with await _answer(fs, url, start, end) as answer:
        answer.raise_for_status()
        if answer.status != _PARTIAL or (_total(answer), answer.headers.get("ETag")) != (seen.size, seen.version):
            raise BadInput(url, "it was changed while it was read", next_step="Read it again.")
        return await answer.read()


async def _answer(fs: HTTPFileSystem, url: str, start: int, end: int) -> aiohttp.ClientResponse:
    session: aiohttp.ClientSession = await fs.set_session()
    words = {**fs.kwargs, "headers": {**fs.kwargs.get("headers", {}), "Range": f"bytes={start}-{end - 1}"}}
    return await session.get(fs.encode_url(url), **words)


def _total(answer: aiohttp.ClientResponse) -> int | None:
    """The size of the whole file, in an answer that is a part of it."""
    found = re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.headers.get("Content-Range", "").strip())
    return int(found[1]) if found else None


async def whole(fs: HTTPFileSystem, url: str, size: int | None) -> IO[bytes]:
    """The file of a server that sends no parts, on disk where it is large; a broken transfer begins again."""
    with ExitStack() as unless_whole:
        file = unless_whole.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
        await _fetch_whole(fs, url, size, file)
        file.seek(0)
        unless_whole.pop_all()  # the reader closes it
    return file


async def _fetch_whole(fs: HTTPFileSystem, url: str, size: int | None, file: IO[bytes]) -> None:
    why: BaseException | None = None
    for tries in range(_TRIES):
        if tries:
            await asyncio.sleep(_PAUSE * 2 ** (tries - 1))
        file.seek(0)
        file.truncate()
        try:
            await fs._get_file(url, file)
        except failures() as error:
            if lasting(error):
                raise
            why = error
        else:
            if size is None or file.tell() == size:
                return
            why = None
    reached = f"{file.tell()} of {'an unknown number of' if size is None else size}"
    raise BrokenTransferError(f"the connection broke {_TRIES} times, at last after {reached} bytes") from why
