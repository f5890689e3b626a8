"""Places: what a user names is a local path or a URL, and the rest of the program sees one interface for both.

A local path stays a `pathlib.Path`, and nothing of fsspec is imported for it. A URL becomes a `Remote`, which has the
methods of a path. Both are an `AnyPath`.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

from stepscope.core.paths.schemes import Address, address, is_url, listing

if TYPE_CHECKING:
    from stepscope.core.paths.remote import Remote

__all__ = ["AnyPath", "is_file", "is_folder", "is_url", "look_again", "place", "printable", "shown", "split_query"]

AnyPath: TypeAlias = Union[Path, "Remote"]  # `|` would need the class, whose module loads fsspec
"""A path, here or elsewhere: `open("rb")`, `name`, `/`, `glob`, `iterdir`, `stat`, `read_bytes`, `write_bytes`."""


def place(given: "str | AnyPath") -> AnyPath:
    """The place that a text names. Raises BadInput for a URL that cannot be used; what is there is not looked at."""
    if not isinstance(given, str):
        return given
    if not is_url(given):
        return Path(given)
    found = address(given)
    if isinstance(found, Path):
        return found
    from stepscope.core.paths.remote import remote

    return remote(found)


def is_folder(where: AnyPath) -> bool:
    """Whether there is a folder; unlike `Path.is_dir`, false for names that the system does not take."""
    return os.path.isdir(where) if isinstance(where, Path) else where.is_dir()


def is_file(where: AnyPath) -> bool:
    """Whether there is a regular file; unlike `Path.is_file`, false for names that the system does not take."""
    return os.path.isfile(where) if isinstance(where, Path) else where.is_file()


def look_again(where: object) -> str:
    """What to do about a path or URL that cannot be read: the command of a shell that shows what is there."""
    text = str(where)
    return listing(text) if is_url(text) else f"Check it with `ls -ld {text}`."


def shown(given: "str | AnyPath") -> str:
    """A path or URL as it may be shown: without a user, a password and a query. Raises BadInput as `place` does."""
    found = address(given) if isinstance(given, str) and is_url(given) else None
    return found.url if isinstance(found, Address) else printable(str(given))


def printable(name: str) -> str:
    r"""The name of a file as text: bytes of it that are not UTF-8, kept by Python as half characters, as `\udcff`."""
    return name.encode("utf-8", "backslashreplace").decode()


def split_query(given: str) -> tuple[str, str]:
    """A path or URL and the query of a web address, with its question mark: what a pattern stands before."""
    if not given.lower().startswith(("http://", "https://")):
        return given, ""
    before, mark, query = given.partition("?")
    return before, mark + query
