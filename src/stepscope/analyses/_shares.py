"""Shares of a rank's mean steady step, before a limit is named."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Shares", "slowed", "slows"]


def slows(recorded: Sequence[str]) -> str:
    """Why host times of a trace that holds stacks, shapes or memory cannot be trusted, and what to record instead."""
    *most, last = recorded
    what = f"{', '.join(most)} and {last}" if most else last
    return (
        f"recording {what} slows the host down; record a window without {'them' if most else what}: "
        "`stepscope run --trace 10:13 -- COMMAND`"
    )


def slowed(recorded: Sequence[str]) -> str:
    """What cannot be told of such a trace, and why."""
    return f"whether the host holds the step up: {slows(recorded)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """As in `bound`; `named_host` is the part of host with a cause other than calling operators from Python.

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
    crowded: float = 0.0
    slowed_by: tuple[str, ...] = ()

    def without_device(self, lacks: str, lines: float) -> "Shares":
        """The same where nobody watched the device: of the host, only `lines` that cannot wait for it are certain."""
        host = lines if lines > 0 else None
        return replace(self, device=None, communication=None, memory=None, host=host, named_host=lines, lacks=lacks)
