"""Shares of a rank's mean steady step, before a limit is named."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

__all__ = ["Shares", "record_without"]

_AGAIN = "`stepscope run --trace 10:13 -- COMMAND`"


def record_without(recorded: Sequence[str]) -> str:
    """What to record instead of such a trace."""
    return f"record a window without {_listed(recorded)}: {_AGAIN}"


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


_NO_USE = re.compile(r"^not applicable, because ")  # how what nothing could record begins


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """As in `bound`; `named_host` is the part of host with a cause other than calling operators from Python.

    `lacks` says what is not known, and `how` what to record so that it is; both empty where nothing is missing.
    `recording` is the part of the step, in `host`, that would be gone without the profiler; `slowed_by` is what the
    trace holds, of stacks, shapes and memory, that makes it larger than need be. `unexplained`: the device idles, and
    neither the host nor anything else in the trace is the reason.
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
    unexplained: float = 0.0
    recording: float = 0.0
    slowed_by: tuple[str, ...] = ()

    def without_recording(self, part: float = 1.0) -> "Shares":
        """The same without a part of what recording costs: the step is shorter, and its host's share smaller."""
        less = part * self.recording
        if self.host is None or not less:
            return self
        longer = 1 / (1 - less) if less < 1 else 0.0
        host = (self.host - less) * longer

        def grown(share: float | None) -> float | None:
            return None if share is None else share * longer

        return replace(
            self, host=host, named_host=self.named_host * host / self.host if self.host else 0.0,
            input=grown(self.input), device=grown(self.device), communication=grown(self.communication),
            memory=grown(self.memory), unexplained=self.unexplained * longer,
        )  # fmt: skip

    def without_device(self, how: str, lines: float) -> "Shares":
        """The same where nobody watched the device: of the host, only `lines` that cannot wait for it are certain."""
        host = lines if lines > 0 else None
        known, why = _NO_USE.subn("", how)
        lacks = known if why else f"what the device does in a step: {how}"
        unknown = replace(self, device=None, communication=None, memory=None, lacks=lacks, how=known)
        return replace(unknown, host=host, named_host=lines)
