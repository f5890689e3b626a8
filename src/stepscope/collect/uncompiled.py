"""A function of ours that runs inside compiled code: torch.compile neither compiles it nor counts it as a frame."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["uncompiled"]


def uncompiled(function: Callable[[int], int]) -> Callable[[int], int]:
    """`function`, of which torch.compile compiles nothing, though a compiled function may have called it."""

    def call(step: int) -> int:
        frames = sys.modules.get("torch._C._dynamo.eval_frame")
        if frames is None:
            return function(step)
        before = frames.set_eval_frame(None)
        try:
            return function(step)
        finally:
            frames.set_eval_frame(before)

    return call
