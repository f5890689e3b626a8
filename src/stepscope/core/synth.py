"""Small runs in a few lines, for tests, documentation and the examples of rules. Times are in milliseconds."""

from collections.abc import Callable

from stepscope.core.importing import Sink
from stepscope.core.run import Run
from stepscope.core.schema import TABLES

__all__ = ["MS", "Synth", "build"]

MS = 1_000_000


class Synth:
    """`Synth().step(0, 0, 100, data_wait=30).kernel(20, 90).run()`."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, object]]] = {}
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

    def loading(
        self,
        *,
        length: float,
        own: float,
        workers: int,
        cores: float,
        parts: tuple[tuple[str, str, float, float], ...],
        feed: float = 1,
        used: float,
        waited: float | None = None,
        steps: int = 40,
        read_file: int | None = None,
    ) -> "Synth":
        """Steps of `length` that train for `own` and wait for workers, with the spans of these, and of their cores.

        `parts` of a fetch follow one another: stage, name, wall time, CPU time; `used` cores are busy, and
        `waited` threads wait for one. The k-th part is defined in line 10 k. What is read is `read_file`.
        """
        self.add("meta", source="run.json", key="cores", value=f'{{"effective": {cores}}}')
        self.add(
            "loaders", loader=0, train=True, dataset="Pictures", dataset_file="/home/me/data.py", dataset_line=5,
            num_workers=workers, prefetch_factor=2, batch_size=32, persistent_workers=True, pin_memory=False,
        )  # fmt: skip
        for step in range(steps):
            start, worker = step * length, step % workers
            self.step(step, start, start + length, data_wait=length - own, forward=own / 2, backward=own / 2)
            watched = {"job CPU": used, "other CPU": 0.0, "helper core wait": waited}
            for what, value in watched.items():
                if value is not None:
                    self.add("system", time=_ns(start + length / 2), rank=None, what=what, value=value, unit="cores")
            ends = self.fetch(step, worker, start, parts, read_file)
            self.span("serialize", step, worker, ends, ends + feed, cpu=_ns(feed))
            self.span("index wait", step, worker, ends, max(ends, start + workers * length))
        return self

    def fetch(
        self,
        batch: int,
        worker: int,
        start: float,
        parts: tuple[tuple[str, str, float, float], ...],
        read_file: int | None = None,
    ) -> float:
        """A fetch of a worker, of parts as in `loading`; returns its end."""
        at = start
        for place, (stage, name, wall, cpu) in enumerate(parts, 1):
            self.span(
                stage, batch, worker, at, at + wall, cpu=_ns(cpu), name=name, file="/home/me/data.py", line=10 * place,
                read_file=read_file if stage == "read" else None,
            )  # fmt: skip
            at += wall
        self.span("fetch", batch, worker, start, at, cpu=_ns(sum(cpu for *_, cpu in parts)))
        return at

    def span(self, stage: str, batch: int, worker: int | None, start: float, end: float, **columns: object) -> "Synth":
        """A span of loader 0, in a worker or in the process that trains."""
        known = {"pid": "1" if worker is None else str(100 + worker), "loader": 0, "iterator": 1, "epoch": 0}
        return self.add(
            "loader_spans", worker=worker, stage=stage, batch=batch, start=_ns(start), end=_ns(end), weight=1,
            failed=False, **{**known, **columns},
        )  # fmt: skip

    def add(self, table: str, **columns: object) -> "Synth":
        """A row of any table, columns as in the schema (times in ns); rank 0 and pid "1" unless given."""
        known = {"rank": 0, "pid": "1", "index": self._index}
        names = {column.name for column in TABLES[table]}
        if unknown := set(columns) - names:
            raise KeyError(f"{table} has no column {', '.join(sorted(unknown))}")
        self._rows.setdefault(table, []).append({**{key: known[key] for key in known if key in names}, **columns})
        self._index += 1
        return self

    def run(self) -> Run:
        """The run written so far."""
        sink = Sink()
        for table, rows in self._rows.items():
            given = dict.fromkeys(name for row in rows for name in row)
            sink.add(table, {name: [row.get(name) for row in rows] for name in given})
        return sink.run("synthetic")


def build(example: Callable[[Synth, bool], None], *, fixed: bool) -> Run:
    """Run a rule's example."""
    synth = Synth()
    example(synth, fixed)
    return synth.run()


def _ns(milliseconds: float) -> int:
    return round(milliseconds * MS)
