"""stepscope finds out why the training of a neural network is slow, what would fix it, and how much that saves.

This package is imported inside the user's training process as well, so that it imports nothing by itself: `open` is
fetched when it is asked for.
"""

__all__ = ["__version__", "step"]

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, which is not imported either
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_mark: "Callable[[], None] | None" = None  # the recording of this process puts its own here


def step() -> None:
    """Mark the end of a training step, where stepscope cannot tell it by itself; once called, it alone ends steps.

    Without a recording this does nothing.
    """
    if _mark is not None:
        _mark()


def __getattr__(name: str) -> "Any":
    if name == "open":
        from importlib import import_module

        return import_module("stepscope.notebook").open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
