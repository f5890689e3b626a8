"""stepscope tells why the training of a neural network is slow: measured, not guessed.

This package is imported inside the user's training process as well, so that it imports nothing by itself: `open` is
fetched when it is asked for.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in typing, which is not imported either
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name == "open":
        from importlib import import_module

        return import_module("stepscope.notebook").open
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
