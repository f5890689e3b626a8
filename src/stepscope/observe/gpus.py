"""What the GPUs of this machine do, by NVIDIA's management library."""

from __future__ import annotations

TYPE_CHECKING = False  # the typing module costs milliseconds at start
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Gpus"]


class Gpus:
    """The NVIDIA GPUs through pynvml, if it is installed and works; `missing` says why there are none, or is empty."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self.missing = ""
        self._handles: list[Any] = []
        try:
            import pynvml
        except ImportError:
            self.missing = "the package nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        except pynvml.NVMLError:
            self.missing = "no NVIDIA driver answers"
            return
        self._nvml = pynvml

    def read(self) -> list[dict[str, Any]]:
        """A row for each: index, and of name, utilization_ratio, memory_used_bytes, memory_total_bytes and power_w what
        the card tells."""
        return [self._device(index, handle) for index, handle in enumerate(self._handles)]

    def _device(self, index: int, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        row: dict[str, Any] = {"index": index}
        for columns in (
            lambda: {"name": _text(nvml.nvmlDeviceGetName(handle))},
            lambda: {"utilization_ratio": nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100},
            lambda: _memory(nvml.nvmlDeviceGetMemoryInfo(handle)),
            lambda: {"power_w": nvml.nvmlDeviceGetPowerUsage(handle) / 1000},
        ):
            try:
                row.update(columns())
            except nvml.NVMLError:
                continue  # not every card can tell everything
        return row


def _memory(memory: Any) -> dict[str, int]:
    return {"memory_used_bytes": int(memory.used), "memory_total_bytes": int(memory.total)}


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
