"""Shares of a rank's mean steady step, before a limit is named."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Shares", "record_without", "slowed", "slows"]

_AGAIN = "`stepscope run --trace 10:13 -- COMMAND`"


def slows(recorded: Sequence[str]) -> str:
    """Why host times of a trace that holds stacks, shapes or memory cannot be trusted, and what to record instead."""
    what = _listed(recorded)
    without = "them" if len(recorded) > 1 else what
    return f"Recording {what} slows the host. Record a window without {without}: {_AGAIN}"


def record_without(recorded: Sequence[str]) -> str:
    """What to record instead of such a trace."""
    return f"record a window without {_listed(recorded)}: {_AGAIN}"


def slowed(recorded: Sequence[str]) -> str:
    """What cannot be told of such a trace, and why."""
    return f"the host's share of the step. {slows(recorded)}"


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


_NO_USE = re.compile(r"^not applicable, because ")  # how what nothing could record begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """As in `bound`; `named_host` is the part of host with a cause other than calling operators from Python.

    `lacks` says what is not known, and `how` what to record so that it is; both empty where nothing is missing.
    `slowed_by` is what the trace holds, of stacks, shapes and memory, that makes the times of the host too long.
    """

    rank: int
    step: float
    input: float | None
    host: float | None
    named_host: float
    device: float | None
    communication: float | None
    memory: float | None
    lacks: str
    how: str
    cpu_contention: float = 0.0
    slowed_by: tuple[str, ...] = ()

    def without_device(self, how: str, lines: float) -> "Shares":
        """The same where nobody watched the device: of the host, only `lines` that cannot wait for it are certain."""
        host = lines if lines > 0 else None
        known, why = _NO_USE.subn("", how)
        lacks = known if why else f"what the device does in a step: {how}"
        unknown = replace(self, device=None, communication=None, memory=None, lacks=lacks, how=how)
        return replace(unknown, host=host, named_host=lines)
