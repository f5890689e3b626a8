"""The device's own step times: a CUDA event at the end of each step, read later and never waited for."""

from __future__ import annotations

from ..run_format.files import DEVICE_STEPS
from ..run_format.records import DEVICE_STEP

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

    from .recorder import Recorder

__all__ = ["DeviceClock"]

_IN_FLIGHT = 1024  # events not yet reached by the device; a job that runs further ahead loses device times, not memory
_NS_PER_MS = 1_000_000


class DeviceClock:
    """Events on the current stream. `cuda` is torch.cuda, which the job has initialized. Raises what CUDA raises."""

    def __init__(self, cuda: Any, recorder: Recorder) -> None:
        self._cuda = cuda
        self._file = recorder.open_mapped(DEVICE_STEPS, DEVICE_STEP.magic, DEVICE_STEP.struct.size)
        self._waiting: list[tuple[int, Any]] = []
        self._spare: list[Any] = []
        self._last: tuple[int, Any] | None = None

    def step_ended(self, step: int) -> None:
        """Put an event behind the work of `step`, and write the steps that the device has finished meanwhile."""
        cuda = self._cuda
        if cuda.is_current_stream_capturing() or len(self._waiting) >= _IN_FLIGHT:
            return
        event = self._spare.pop() if self._spare else cuda.Event(enable_timing=True)
        event.record()
        self._waiting.append((step, event))
        self._collect()

    def close(self) -> None:
        """Write what the device has finished; what it has not is not waited for."""
        self._collect()
        self._waiting.clear()
        self._file.close()

    def _collect(self) -> None:
        waiting, done = self._waiting, 0
        while done < len(waiting) and waiting[done][1].query():
            step, event = waiting[done]
            done += 1
            if self._last is not None:
                last_step, last_event = self._last
                if last_step == step - 1:
                    self._file.write(DEVICE_STEP.struct.pack(step, round(last_event.elapsed_time(event) * _NS_PER_MS)))
                self._spare.append(last_event)
            self._last = (step, event)
        del waiting[:done]
