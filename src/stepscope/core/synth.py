"""Write small runs by hand, for tests, documentation and the examples of rules. Times are in milliseconds."""

from collections.abc import Callable

from stepscope.core.run import Run
from stepscope.core.schema import TABLES
from stepscope.core.trace import Sink

__all__ = ["MS", "Synth", "build"]

MS = 1_000_000


class Synth:
    """`Synth().step(0, 0, 100, data_wait=30).kernel(20, 90).run()`."""

    def __init__(self) -> None:
        self._sink = Sink()
        self._index = 0

    def step(
        self,
        step: int,
        start: float,
        end: float,
        *,
        data_wait: float | None = 0,
        forward: float = 0,
        backward: float = 0,
        optimizer: float = 0,
        samples: int | None = None,
        micro_batches: int = 1,
        gc: float = 0,
        evaluation_wait: float = 0,
        device_duration: float | None = None,
        tags: tuple[str, ...] = (),
        clock: str = "host",
        rank: int = 0,
    ) -> "Synth":
        """A step of the probe; `other` is what the given parts leave of it."""
        other = (end - start) - (data_wait or 0) - forward - backward - optimizer
        parts = {
            "data_wait": data_wait,
            "forward": forward,
            "backward": backward,
            "optimizer": optimizer,
            "other": other,
        }
        times = {"gc": gc, "evaluation_wait": evaluation_wait, "device_duration": device_duration, **parts}
        columns = {name: None if value is None else round(value * MS) for name, value in times.items()}
        return self.add(
            "steps", rank=rank, step=step, start=_ns(start), end=_ns(end), samples=samples, micro_batches=micro_batches,
            clock=clock, tags=list(tags), **columns,
        )  # fmt: skip

    def host(self, name: str, kind: str, start: float, end: float, *, thread: str = "1", **columns: object) -> "Synth":
        """A host event: operator, annotation, runtime, driver, python."""
        return self.add("host", name=name, kind=kind, start=_ns(start), end=_ns(end), thread=thread, **columns)

    def kernel(
        self, start: float, end: float, name: str = "gemm", *, device: int = 0, stream: str = "7", **columns: object
    ) -> "Synth":
        """A kernel on a device; for copies and sets give kind="memcpy" or "memset"."""
        columns = {"kind": "kernel", **columns}
        return self.add("device", name=name, start=_ns(start), end=_ns(end), device=device, stream=stream, **columns)

    def sample(
        self, step: int, time: float, weight: float, phase: str, file: str, line: int, **columns: object
    ) -> "Synth":
        """A sample of the line in the user's code that was running."""
        return self.add(
            "stacks", step=step, time=_ns(time), weight=_ns(weight), phase=phase, file=file, line=line,
            **{"collector": False, **columns},
        )  # fmt: skip

    def add(self, table: str, **columns: object) -> "Synth":
        """A row of any table, columns as in the schema (times in ns); rank 0 and pid "1" unless given."""
        known = {"rank": 0, "pid": "1", "index": self._index}
        names = {column.name for column in TABLES[table]}
        row = {**{key: value for key, value in known.items() if key in names}, **columns}
        self._index += 1
        self._sink.row(table, **row)
        return self

    def run(self) -> Run:
        """The run written so far."""
        return self._sink.run("synthetic")


def build(example: Callable[[Synth, bool], None], *, fixed: bool) -> Run:
    """Run a rule's example."""
    synth = Synth()
    example(synth, fixed)
    return synth.run()


def _ns(milliseconds: float) -> int:
    return round(milliseconds * MS)
