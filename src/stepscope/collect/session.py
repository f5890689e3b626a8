"""The recording of one training process: opened at the end of its first step, closed at exit, inert after a fork."""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import time

from ..run_format import files
from ..run_format.options import RecordingOptions
from ..run_format.records import FLAG_TRACING, STEP
from . import facts, fields
from .graph_breaks import graph_breaks
from .guards import own_errors
from .origins import Origins
from .recorder import Recorder, leave_ending, leave_note
from .registry import Registry
from .sources import Sources
from .step_clock.clock import State, StepClock
from .step_clock.observer import Observer
from .step_clock.uncounted import leave_stepless, left_out, outer_loop
from .uncompiled import uncompiled

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .step_clock.training_loader import LoaderUse

__all__ = ["Session"]


_OPTIMIZERS_DESCRIBED = 256  # a job that makes one for each sample would fill the disk with descriptions


class Session(Observer):
    """Owns the clock, the files and the helpers of this process. Nothing is written before the first step has ended."""

    def __init__(self, run_dir: str, grad_enabled: Callable[[], bool]) -> None:
        self._run_dir = run_dir
        self._begin()
        self.clock = StepClock(State(), time.monotonic_ns, _thread.get_ident, grad_enabled, self)
        self.registry = Registry(self.learn)
        atexit.register(self.close)

    def _begin(self) -> None:
        super().__init__(self._keep)
        self.boundary = uncompiled(self._open)
        self._pid = os.getpid()
        self._recorder: Recorder | None = None
        self._records: list[bytes] = []
        self._optimizers = 0
        self._facts: list[dict[str, Any]] = []
        self._notes: list[tuple[str, object]] = []
        self._window: Any = None
        self._device: Any = None
        self._sampler: Any = None
        self._options = RecordingOptions()
        self._sources: Sources | None = None
        self._helpers: list[tuple[str, Any]] = []

    # -- what is learnt ----------------------------------------------------------------------------------------------

    def learn(self, row: dict[str, Any]) -> None:
        """Write a fact, or keep it until there is a file. Never raises."""
        if self._recorder is None:
            self._facts.append(row)
        else:
            self._attempt("facts", lambda recorder: recorder.append(files.FACTS, row))
            self._attempt("source lines", lambda _: self._keep_source(row))

    def _keep_source(self, row: dict[str, Any]) -> None:
        """The lines around the places that a fact names."""
        if self._sources is not None:
            for what in facts.PLACES:
                self._sources.keep_users(row.get(f"{what}_file"), row.get(f"{what}_line"))

    def note(self, what: str, why: object) -> None:
        """Say what is not recorded, or keep that until there is a file. Never raises."""
        if self._recorder is None:
            self._notes.append((what, why))
        else:
            self._recorder.note(what, why)

    def clock_failed(self, what: str, error: BaseException) -> None:
        """The clock has stopped for good: so must the profiler, which would go on filling the memory."""
        if self._recorder is None:
            leave_note(self._run_dir, f"{what} of process {self._pid}", error)
            return
        self.note(what, error)
        window, self._window = self._window, None
        if window is not None:
            self._attempt("trace", lambda _: window.close())

    def met_optimizer(self, optimizer: Any) -> None:
        self._optimizers += 1
        if self._optimizers > _OPTIMIZERS_DESCRIBED:
            return
        try:
            self.learn(facts.optimizer(optimizer))
        except own_errors() as error:
            self.note("facts of the optimizer", error)

    def identify(self, iterator: Any) -> LoaderUse:
        return self.registry.identify(iterator)

    def found_outer_loop(self, before: tuple[int, int], step: int) -> None:
        self.learn(outer_loop(before, step))

    def found_training(self, use: LoaderUse) -> None:
        self.learn({"kind": "train_loader", "id": use.id})

    # -- opening -----------------------------------------------------------------------------------------------------

    def _keep(self, record: bytes) -> None:
        self._records.append(record)

    def _open(self, step: int) -> int:
        """The boundary of the first step: make the files, start the helpers, become quick. Returns the next flags."""
        if _in_loader_worker():
            self.clock.stop()
            return 0
        try:
            self._open_files()
        except own_errors() as error:
            self.clock.stop()
            leave_note(self._run_dir, f"all steps of process {self._pid}", error)
            return 0
        atexit.register(self.close)  # again: before what was registered until now
        _close_with_multiprocessing(self.close)
        self._attempt("device step times", self._start_device_clock)
        self._attempt("trace", self._start_window)
        self._attempt("lines", self._start_lines)
        self._attempt("time of the garbage collector", self._start_collector)
        has_more = self._window is not None or self._device is not None
        self.boundary = uncompiled(self._boundary) if has_more else None
        self.clock.connect()
        return self.boundary(step) if self.boundary is not None else 0

    def _open_files(self) -> None:
        torch = sys.modules["torch"]
        group = self._described(lambda: facts.distributed(torch), "facts of torch.distributed")
        row = facts.process(group)
        recorder = Recorder(_free_directory(self._run_dir, row["rank"], self._pid))
        names = ("epoch_ns", "monotonic_ns", "took_ns")
        row["clock"] = {name: getattr(recorder, name) for name in names}
        row["probe"] = fields.kind()
        row["probe_step_ns"] = self._described(_calibrate, "cost of the probe")
        recorder.write_json(files.PROCESS, row)
        write = recorder.open_mapped(files.STEPS, STEP.magic, STEP.struct.size).writer()
        for record in self._records:
            write(record)
        self.emit = write
        self._recorder = recorder
        self._records = []
        for what, why in self._notes:
            recorder.note(what, why)
        known = self._described(lambda: facts.torch_settings(torch), "facts of torch")
        self._attempt("trace and lines", self._read_options)
        for fact in [*self._facts, known, group]:
            if fact is not None:
                self.learn(fact)
        self._facts, self._notes = [], []

    def _described(self, describe: Callable[[], Any], what: str) -> Any:
        try:
            return describe()
        except own_errors() as error:
            self.note(what, error)
            return None

    def _read_options(self, recorder: Recorder) -> None:
        self._options = RecordingOptions.from_environment()
        if self._options.source:
            self._sources = Sources(lambda row: recorder.append(files.SOURCES, row), Origins())

    def _start_device_clock(self, recorder: Recorder) -> None:
        cuda = getattr(sys.modules["torch"], "cuda", None)
        if cuda is not None and cuda.is_initialized():
            from .device_clock import DeviceClock

            self._device = DeviceClock(cuda, recorder)
            self._helpers.append(("device step times", self._device))

    def _start_window(self, recorder: Recorder) -> None:
        if self._options.trace:
            from .torch_profiler.window import Window

            self._window = Window(self._options, recorder, self.clock.state)
            self._helpers.append(("trace", self._window))

    def _start_lines(self, recorder: Recorder) -> None:
        hz = self._options.lines_hz
        if hz:
            from .line_sampler.lines import Sampler

            self._sampler = Sampler(self.clock.state, recorder, hz, sources=self._sources)
            self._sampler.spares_traced_steps = "memory" in self._options.extras
            self._sampler.start()
            self._helpers.append(("lines", self._sampler))

    def _start_collector(self, recorder: Recorder) -> None:
        from .garbage import Collector

        collector = Collector(self.clock.state, self._sampler)
        collector.start()
        self._helpers.append(("time of the garbage collector", collector))

    # -- every step --------------------------------------------------------------------------------------------------

    def _boundary(self, step: int) -> int:
        """The end of `step`: device event, traced window. Returns the flags of the next step."""
        flags = 0
        if self._device is not None:
            try:
                self._device.step_ended(step)
            except own_errors() as error:
                self._device = None
                self.note("device step times", error)
        if self._window is not None:
            try:
                flags = self._window.boundary(step) or 0
                self._cut_by(self._window.edge if self._window.active else None)
                if not self._window.live:
                    self._window = None
            except own_errors() as error:
                self._window = None
                self._cut_by(None)
                flags = FLAG_TRACING
                self.note("trace", error)
        if self._window is None and self._device is None:
            self.boundary = None
            self.clock.connect()
        return flags

    def _cut_by(self, edge: Callable[[], int | None] | None) -> None:
        if edge != self.edge:
            self.edge = edge
            self.clock.connect()

    def _attempt(self, what: str, write: Callable[[Recorder], Any]) -> None:
        try:
            if self._recorder is not None:
                write(self._recorder)
        except own_errors() as error:
            self.note(what, error)

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop everything and close the files; only in the process that opened them, only once. Never raises."""
        if self._pid != os.getpid():
            return
        for part in (self._tell_end, self._stop):
            try:
                part()
            except own_errors():  # Python would print it at the end of the job
                continue

    def _tell_end(self) -> None:
        if self._recorder is None:
            leave_stepless(self._run_dir, self.clock)
            return
        for what, why in left_out(self.clock):
            self._recorder.note(what, why)
        for row in self._described(lambda: graph_breaks(Origins()), "graph breaks of torch.compile") or ():
            self.learn(row)
        leave_ending(self._run_dir, self._pid)

    def _stop(self) -> None:
        recorder = self._recorder
        if recorder is None:
            return
        self.clock.stop()
        for what, helper in self._helpers:
            try:
                helper.close()
            except own_errors() as error:
                recorder.note(what, error)
        self._helpers, self._recorder = [], None
        recorder.close()

    def forked(self) -> None:
        """In a forked child: touch none of the parent's files, and begin anew, in case this child trains."""
        helpers, recorder = self._helpers, self._recorder
        try:
            self._begin()
            self.clock.restart()
        except own_errors():  # this child is not recorded; Python would print it
            self.clock.stop()
            self._helpers, self._recorder = [], None
        for _, helper in helpers:
            abandon = getattr(helper, "abandon", None)
            if abandon is not None:
                try:
                    abandon()
                except own_errors() as error:
                    self.note("clean start after a fork", error)
        if recorder is not None:
            try:
                recorder.close()
            except own_errors():
                return


def _free_directory(run_dir: str, rank: int, pid: int) -> str:
    """Makes rank-00000.pid-4711; a process identifier that comes again in a long run gets a number behind it."""
    name = os.path.join(run_dir, f"rank-{rank:05d}.pid-{pid}")
    path, again = name, 0
    while True:
        try:
            os.mkdir(path, 0o700)
            return path
        except FileExistsError:
            again += 1
            path = f"{name}.{again}"


def _in_loader_worker() -> bool:
    worker = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def _close_with_multiprocessing(close: Callable[[], None]) -> None:
    """A child that multiprocessing has forked leaves by os._exit: atexit never runs there, its finalizers do."""
    util = sys.modules.get("multiprocessing.util")
    process = sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, close, exitpriority=100)


def _calibrate() -> int:
    from .probe_cost import step_cost_ns

    return step_cost_ns()
