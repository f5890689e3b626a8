"""What `--set` gives the loaders of a job; every contradiction is told before the job starts."""

from __future__ import annotations

import re

from stepscope.core.errors import BadInput

__all__ = ["SETTINGS", "loader_settings"]

SETTINGS = (
    "num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "multiprocessing_context", "worker_threads",
)  # fmt: skip
"""Settings of a DataLoader that can be set from outside, as DataLoader calls them; and the threads of a worker."""

_LEAST = {"num_workers": 0, "prefetch_factor": 1, "worker_threads": 1}
_METHODS = ("fork", "spawn", "forkserver")
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_NEXT = "write --set num_workers=4,prefetch_factor=4 (stepscope run --help)"


def loader_settings(words: str) -> dict[str, int | bool | str]:
    """The values by setting. Raises BadInput for words that make none, or that torch would refuse together."""
    found: dict[str, int | bool | str] = {}
    for word in words.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not value:
            raise BadInput("--set", f"{word.strip()!r} is not NAME=VALUE", next_step=_NEXT)
        if name not in SETTINGS:
            raise BadInput("--set", f"there is no {name!r}{_close(name)}", next_step=_choice())
        if name in found:
            raise BadInput("--set", f"{name} is given twice", next_step=_NEXT)
        found[name] = _value(name, value)
    if found.get("num_workers") == 0:
        needy = [name for name in found if name not in ("num_workers", "pin_memory") and found[name]]
        if needy:
            raise BadInput("--set", f"{needy[0]} needs workers, and num_workers is 0", next_step=_NEXT)
    return found


def _value(name: str, value: str) -> int | bool | str:
    if name in _LEAST:
        if re.fullmatch(r"\d{1,4}", value, re.ASCII) and int(value) >= _LEAST[name]:
            return int(value)
        raise BadInput("--set", f"{name}={value} is not a number from {_LEAST[name]}", next_step=_NEXT)
    if name == "multiprocessing_context":
        if value in _METHODS:
            return value
        raise BadInput("--set", f"{name}={value} is none of {', '.join(_METHODS)}", next_step=_NEXT)
    if value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    raise BadInput(
        "--set",
        f"{name}={value} is neither true nor false",
        next_step=f"write --set {name}=true (stepscope run --help)",
    )


def _choice() -> str:
    return f"choose from {', '.join(SETTINGS)} (stepscope run --help)"


def _close(word: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, SETTINGS, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""
