"""Where the fields of the hot path lie: in the structs of native_hooks.c where that can be loaded, else in slots.

The compiled part is left out where it was not built, does not fit the job's Python (one without the global lock, too),
or STEPSCOPE_HOOKS=python asks for the Python hooks. A step then costs more; calls inside samples are not recorded, and
lines by taking turns with the job.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ClockFields", "StateFields", "UseFields", "compiled", "kind"]

FIELDS_VERSION = 6
"""Counted up with every change of a field or function: a build of before must not be loaded."""


def _load() -> Any:
    if os.environ.get("STEPSCOPE_HOOKS") == "python" or "t" in getattr(sys, "abiflags", ""):
        return None  # a Python without the lock, which importing the compiled part would bring back, with a warning
    try:
        from . import native_hooks
    except Exception:
        return None
    return native_hooks if native_hooks.VERSION == FIELDS_VERSION else None


compiled = _load()
"""The module native_hooks, or None."""


def kind() -> str:
    """What the hooks of this process are: "compiled" or "python"."""
    return "python" if compiled is None else "compiled"


if TYPE_CHECKING or compiled is None:

    class StateFields:
        """Fields of State."""

        __slots__ = ("gc_ns", "phase", "step", "thread", "traced")

    class UseFields:
        """Fields of LoaderUse that a step touches."""

        __slots__ = (
            "any_grad", "away", "count", "counted", "fetches", "flags", "grad", "open", "samples", "step", "train",
            "wait",
        )  # fmt: skip

    class ClockFields:
        """Fields of StepClock that a step touches."""

        __slots__ = (
            "backward", "boundary", "busy", "closures", "consumed", "depth", "edge", "emit", "expected", "flags",
            "foreign", "forward", "gc_mark", "grad_enabled", "ident", "inner_forward", "last", "leader", "mark",
            "micro", "now", "optimizer", "start", "state", "thread", "touched", "training", "unobserved", "voting",
        )  # fmt: skip

else:
    StateFields, UseFields, ClockFields = compiled.State, compiled.Use, compiled.Clock
