"""The record of a step, and the step in flight up to a moment that may turn out to have been its end."""

from __future__ import annotations

from ...run_format.records import FLAG_FOREIGN_LOADER, FLAG_NO_DATA_WAIT, STEP
from .training_loader import LoaderUse, waits

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from .training_thread import TrainingThread

__all__ = ["Piece", "record"]


def record(
    clock: TrainingThread, step: int, end: int, parts: TrainingThread | Piece, waited: tuple[int, int, int, int, bool]
) -> bytes:
    """The record of `step`, which ended at `end` and is made of `parts`: the clock's, or those of a piece."""
    wait, away, samples, flags, observed = waited
    gc_ns = parts.gc_ns if isinstance(parts, Piece) else clock.state.gc_ns
    if samples < 0:
        samples = -1
    if not observed and not any(use.open for use in clock.training):
        clock.unobserved += 1  # nobody saw where its data came from
        wait = samples = -1
        flags |= FLAG_NO_DATA_WAIT | (FLAG_FOREIGN_LOADER if clock.foreign else 0)
    return STEP.struct.pack(
        step, clock.start, end, wait, parts.forward, parts.backward, parts.optimizer, away,
        gc_ns - clock.gc_mark, samples, parts.micro, flags,
    )  # fmt: skip


class Piece:
    """What `clock` has accounted of its step in flight up to `end`, added up as for a record."""

    __slots__ = ("_uses", "backward", "end", "forward", "gc_ns", "micro", "optimizer", "waited")

    def __init__(self, clock: TrainingThread, end: int) -> None:
        self.end, self.gc_ns = end, clock.state.gc_ns
        self.forward, self.backward, self.optimizer, self.micro = (
            clock.forward, clock.backward, clock.optimizer, clock.micro,
        )  # fmt: skip
        self.waited = waits(clock.touched, clock.flags)
        self._uses = [(use, use.wait, use.away, use.samples, use.fetches, use.flags) for use in clock.touched]

    def take_from(self, clock: TrainingThread) -> None:
        """What is accounted from here on, and was since `end`, is the next step's."""
        clock.start, clock.gc_mark = self.end, self.gc_ns
        clock.forward -= self.forward
        clock.backward -= self.backward
        clock.optimizer -= self.optimizer
        clock.micro -= self.micro
        for use, wait, away, samples, fetches, flags in self._uses:
            use.wait -= wait
            use.away -= away
            use.samples -= samples
            use.fetches -= fetches
            use.flags &= ~flags
        clock.touched[:] = [use for use in clock.touched if _is_used(use)]


def _is_used(use: LoaderUse) -> bool:
    if use.wait or use.away or use.fetches or use.flags:
        use.step += 1
        return True
    use.step = -1  # the next fetch touches it anew
    return False
