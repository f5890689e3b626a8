"""Answers in JSON, compressed where the browser takes that."""

import gzip
import json

from starlette.requests import Request
from starlette.responses import Response

from stepscope.render.finite import finite

__all__ = ["json_answer", "nanoseconds"]

_WORTH_IT = 4096  # bytes from which compressing saves more than it costs
_LONGEST = 1 << 62  # ns: a century and a half, of which sums still fit into int64
_QUICK = 1  # level: on this machine or a near one, time counts more than size


def json_answer(request: Request, document: object, *, status: int = 200) -> Response:
    """A document as JSON; NaN and infinity become null."""
    try:
        text = _dumps(document)
    except (ValueError, TypeError):  # JSON has no word for something; looking for it takes longer than writing
        text = _dumps(finite(document))
    data = text.encode("utf-8", "replace")
    headers = {}
    if len(data) > _WORTH_IT and "gzip" in request.headers.get("accept-encoding", ""):
        data = gzip.compress(data, compresslevel=_QUICK)
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(data, status, headers=headers, media_type="application/json")


def _dumps(document: object) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def nanoseconds(text: str) -> int:
    """A time that a request names. Raises ValueError for what is no whole number, or no time of any run."""
    found = int(text)
    if abs(found) >= _LONGEST:
        raise ValueError(f"{text[:40]} is no time of a run")
    return found
