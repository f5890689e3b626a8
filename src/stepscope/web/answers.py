"""Answers in JSON, compressed where the browser takes that."""

import gzip
import json

from starlette.requests import Request
from starlette.responses import Response

from stepscope.render.json import finite

__all__ = ["json_answer"]

_WORTH_IT = 4096  # bytes from which compressing saves more than it costs
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
