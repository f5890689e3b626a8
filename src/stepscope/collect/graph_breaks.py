"""Where torch.compile broke graphs in this process, and why: what torch itself keeps of it, read and left alone."""

from __future__ import annotations

import sys

from .origins import USER, Origins

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["graph_breaks"]

_READ = 1000  # breaks: a script that compiles for hours makes more, and they repeat
_TOLD = 50  # places with their reasons
_REASON = 300  # letters: the first line says it, what follows are hints for torch's authors


def graph_breaks(origins: Origins) -> list[dict[str, Any]]:
    """A row for each reason and innermost line of the user's own code; none where nothing was compiled."""
    kept = getattr(sys.modules.get("torch._dynamo.utils"), "graph_break_reasons", None) or []
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in kept[:_READ]:
        frames = [frame for frame in one.user_stack if origins.of(frame.filename) == USER]
        if not frames:
            continue  # a library's own code broke it: nothing that the user wrote
        file, line, function = origins.shown(frames[-1].filename), frames[-1].lineno, frames[-1].name
        reason = str(one.reason).strip().partition("\n")[0][:_REASON]
        row = {"kind": "graph_break", "break_file": file, "break_line": line, "function": function, "reason": reason}
        found.setdefault((reason, file, line), {**row, "count": 0})["count"] += 1
    return list(found.values())[:_TOLD]
