"""What a job is recorded with: written by the launcher, read by the probe."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = ["VARIABLE", "RecordingOptions"]

VARIABLE = "STEPSCOPE_OPTIONS"
"""Environment variable with the options as JSON."""


@dataclass(frozen=True)
class RecordingOptions:
    """The options of one recording. Without any, only steps are recorded."""

    trace: dict[str, int] | None = None
    """Steps under torch.profiler, as torch.profiler.schedule counts them: skip_first, wait, warmup, active, repeat."""
    any_step: bool = False
    """The traced window may wait for a step that suits it."""
    extras: list[str] = field(default_factory=list)
    """Extra trace contents: shapes, memory, stacks, flops, modules."""
    activities: list[str] | None = None
    """What is traced: cpu, cuda; None: all that is there."""
    trace_seconds: float = 10
    """A window that lasts longer is cut."""
    trace_events: int = 100_000
    """A window with more events is cut: these are 30 MB, about a second to write and read again."""
    lines_hz: int = 0
    """Samples of the training thread's line a second."""
    loader: str = "off"
    """Spans of data loading: off, on (within a share of the CPU time) or all."""
    loader_lines_hz: float = 0
    """Samples of a worker's line a second, at most."""
    source: bool = True
    """Keep lines of the user's source, so that a report can show them; else only the names that they call."""
    overrides: dict[str, Any] | None = None
    """Settings of DataLoaders instead of the script's, for a trial."""
    calibration: bool = False
    """Measure what training and loading take alone."""

    def to_json(self) -> str:
        """The text for the environment of the job."""
        return json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> RecordingOptions:
        """The options of this process; a key of another version is passed over. Raises ValueError for no JSON."""
        given = json.loads(os.environ.get(VARIABLE) or "{}")
        return cls(**{known.name: given[known.name] for known in fields(cls) if known.name in given})
