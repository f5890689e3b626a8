"""What threads of ours do beside the job's: no collection of the job's garbage begins there.

Python begins one in the thread whose new object is one too many, and runs the job's `__del__` there, which may only
work in the thread that made the object: native/collector.h says how it is put off.
"""

from __future__ import annotations

import os

from .fields import compiled

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["COLLECTIONS_WAIT"]


class _Wait:
    """`with COLLECTIONS_WAIT:` around what a thread of ours does between two waits."""

    def __enter__(self) -> None:
        if compiled is not None:
            compiled.defer_collections()

    def __exit__(self, *_: Any) -> None:
        if compiled is not None:
            compiled.allow_collections()


COLLECTIONS_WAIT = _Wait()

if compiled is not None:
    os.register_at_fork(after_in_child=compiled.allow_all_collections)
