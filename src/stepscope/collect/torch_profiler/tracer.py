"""torch's profiler, started, stopped and saved without the parts of it that are slow or loud.

Everything here was read off real traces (torch 2.13, CPU):

- Event parsing in Python is superlinear and is not needed for a file, so stopping goes to `_disable_profiler` directly
  and saving to `_ProfilerResult.save`. On a shared 2-core machine that costs about 2–6 µs and 1–2 µs an event, and the
  file holds about 290 bytes an event.
- `_KinetoProfile.prepare_trace` imports torch._inductor, about 0.9 s in a job that has not: skipped there.
- Kineto writes lines to the job's stderr on every start and stop. They are off at log level 6; the level is read once,
  at the first `prepare`.
- A record_function that is open while the profiler stops gets the end of the trace as its end. One that was opened
  under one profiler run and closes under the next writes to freed memory inside torch. So stop and start between
  records, never inside Optimizer.step.
- Each annotation that is open when it stops is a warning of torch's C++ on stderr: off while it stops.
- A process that exits, or prepares another profiler, while one is prepared or running makes torch print warnings.
- A child forked while the profiler runs goes on recording in memory for ever.
- A child forked after Kineto has started, by os.fork and not by multiprocessing, hangs when it leaves through exit():
  the destructor of Kineto's ConfigLoader waits for a thread that the child does not have.
"""

from __future__ import annotations

import contextlib
import os
import sys

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = [
    "OPTION_NAMES",
    "STEP_MARK",
    "Tracer",
    "another_is_active",
    "has_device_work",
    "repair_forked_child",
    "resolve_activities",
    "script_made_a_profiler",
    "watch_other_profilers",
]

STEP_MARK = "ProfilerStep#"
"""What the annotation of a step begins with, as with torch.profiler."""

OPTION_NAMES = {
    "shapes": "record_shapes",
    "memory": "profile_memory",
    "stacks": "with_stack",
    "flops": "with_flops",
    "modules": "with_modules",
}
"""What `--with` calls an option of torch.profiler, and what torch calls it."""

_KINETO_SILENT = "99"  # above every level that Kineto has: 6 is the first that prints nothing
_PROFILES_FOR_TORCH = "TraceContext"  # class of what torch hands to the interpreter with with_stack
_ERRORS_ONLY = 2  # of c10's levels: information, warning, error
_process = {"started": False, "forked": False}  # Kineto, in this process; in the one it was forked from
_TAIL = 64  # bytes at the end of a file in which the closing brace must be


class Tracer:
    """One run of torch's profiler in the calling thread. `activities` as from `resolve_activities`, `extras` out of
    OPTION_NAMES.

    Every method raises what torch raises, and OSError for the file.
    """

    def __init__(self, activities: list[str], extras: list[str]) -> None:
        from torch.profiler import ProfilerActivity
        from torch.profiler.profiler import _KinetoProfile

        options: dict[str, Any] = {OPTION_NAMES[name]: True for name in extras}
        self._cpu, self._cuda = "cpu" in activities, "cuda" in activities
        used = [getattr(ProfilerActivity, name.upper()) for name in activities]
        self._profile: Any = _marked(_KinetoProfile(activities=used, **options))
        self._options = options
        self._results: Any = None

    def prepare(self) -> None:
        """Warm up: the first time in a process this starts Kineto and, for a GPU, CUPTI."""
        if _process["forked"]:
            raise RuntimeError("this process was forked from one in which torch's profiler had started")
        _process["started"] = True
        with _silent_kineto():
            if "torch._inductor" in sys.modules:
                self._profile.prepare_trace()
                _marked(self._profile.profiler)
            else:
                self._prepare_without_inductor()

    def start(self) -> None:
        """Record from here on. `prepare` must have been called."""
        self._profile.start_trace()

    def stop(self) -> None:
        """Stop recording, after waiting for the device, and keep the results. Must run in the thread of `start`."""
        torch: Any = sys.modules["torch"]
        if self._cuda and not torch.cuda.is_current_stream_capturing():  # a graph that is captured would be lost
            torch.cuda.synchronize()
        with _silent_warnings(torch):
            self._results = torch.autograd._disable_profiler()
        mark_stopped = getattr(torch.autograd.profiler, "_run_on_profiler_stop", None)
        if mark_stopped is not None:  # older torch has no such mark
            mark_stopped()

    def unprepare(self) -> None:
        """Leave the prepared state without a word from torch: an empty recording, thrown away."""
        self.start()
        self.stop()
        self.discard()

    def count_events(self) -> int:
        """Operators, annotations and Python calls recorded, once stopped; about 1 µs each."""
        return len(self._results.events())

    def left_open(self) -> bool:
        """Whether an annotation was open when the profiler stopped, once stopped: torch must not record again before it
        is closed. One ends after that of the step, which is closed last; about 0.3 µs an event."""
        events = self._results.events()
        if not events or not hasattr(events[0], "activity_type"):
            return False  # older torch does not tell them apart
        marks = [event for event in events if event.activity_type() == "user_annotation"]
        ends = {event.start_ns() + event.duration_ns(): event.name() for event in marks}
        return bool(ends) and not ends[max(ends)].startswith(STEP_MARK)

    def save(self, path: str) -> None:
        """Write the trace to `path`, whole or not at all. Raises OSError when it does not arrive whole."""
        draft = path + ".tmp"
        try:
            os.close(os.open(draft, os.O_WRONLY | os.O_CREAT, 0o644))  # where it cannot be, Kineto prints an error
            self._results.save(draft)
            _raise_unless_whole(draft)
            os.replace(draft, path)
        except BaseException:
            for leaving in (draft, draft + ".tmp"):  # Kineto has a draft of its own
                with contextlib.suppress(OSError):
                    os.unlink(leaving)
            raise

    def discard(self) -> None:
        """Free the recorded events; the tracer is used up."""
        self._results = self._profile = None

    def _prepare_without_inductor(self) -> None:
        import inspect

        from torch.autograd.profiler import profile

        options: dict[str, Any] = dict(self._options)
        if self._cuda and "use_device" in inspect.signature(profile.__init__).parameters:
            options["use_device"] = "cuda"
        elif self._cuda:
            options["use_cuda"] = True
        self._profile.profiler = profile(use_cpu=self._cpu, use_kineto=True, **options)
        _marked(self._profile.profiler)
        self._profile.profiler._prepare_trace()


def resolve_activities(wanted: list[str] | None) -> list[str]:
    """The activities to record: `wanted`, or CPU and the GPU if this process uses one. Never initializes CUDA.

    Raises ValueError when one that was asked for cannot be recorded here.
    """
    torch: Any = sys.modules["torch"]
    supported = {str(activity).rpartition(".")[2].lower() for activity in torch.autograd._supported_activities()}
    cuda = "cuda" in supported and torch.cuda.is_initialized()
    if wanted is None:
        return ["cpu", "cuda"] if cuda else ["cpu"]
    for name in wanted:
        if name == "cuda" and not cuda:
            raise ValueError("activity cuda cannot be recorded: this process has not used CUDA")
        if name not in ("cpu", "cuda") or name not in supported:
            raise ValueError(
                "activity {} cannot be recorded by this torch (it can: {})".format(name, ", ".join(sorted(supported)))
            )
    return list(dict.fromkeys(wanted))


def _marked(profiler: Any) -> Any:
    """As ours: who looks at frames, a debugger say, may keep one alive that we have used, and a search comes to it."""
    profiler._stepscope_own = True
    return profiler


def has_device_work(path: str) -> bool:
    """Whether the trace holds a kernel or a copy. Reads the file: about 50 ms for 100 MB."""
    import mmap

    with open(path, "rb") as trace, mmap.mmap(trace.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(text.find(b'"cat": "%s"' % kind) >= 0 for kind in (b"kernel", b"gpu_memcpy", b"gpu_memset"))


def another_is_active() -> bool:
    """Whether a profiler that is not ours runs in this thread. Ask only while none of ours does."""
    torch: Any = sys.modules["torch"]
    return bool(torch.autograd._profiler_enabled())


def within_backward() -> bool:
    """Whether the caller was called by a backward pass, as what a checkpoint computes again, and hooks, are.

    Nothing may be started or stopped there: a backward pass puts back at its end what was on in its thread before. The
    profiler would be on again, with no one to stop it, and keep events as long as the job lasts.
    """
    task: Any = getattr(sys.modules["torch"]._C, "_current_graph_task_id", None)  # torch 2.1
    return task is not None and bool(task() != -1)


def script_made_a_profiler() -> str | None:
    """The class name of a profiler object that the script holds, else None: one look over all objects, about 20 ms."""
    import gc

    torch: Any = sys.modules["torch"]
    classes: list[type] = [torch.profiler.profiler._KinetoProfile, torch.autograd.profiler.profile]
    for kind in classes:
        classes.extend(kind.__subclasses__())  # the loop comes to these too
    for thing in gc.get_referrers(*classes):  # an object refers to its class
        kind = type(thing)
        if kind in classes and getattr(thing, "enabled", True) and not getattr(thing, "_stepscope_own", False):
            return f"{kind.__module__}.{kind.__qualname__}"
    return None


def watch_other_profilers(before: Callable[[], object]) -> Callable[[], None]:
    """Call `before()` whenever a profiler of torch, ours too, is about to be prepared or started. Returns the undo."""
    from torch.autograd import profiler

    names = ("_prepare_profiler", "_enable_profiler")
    originals = {name: getattr(profiler, name) for name in names}

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before()
            return original(*args, **kwargs)

        return call

    for name, original in originals.items():
        setattr(profiler, name, watched(original))

    def undo() -> None:
        for name, original in originals.items():
            setattr(profiler, name, original)

    return undo


def repair_forked_child(recording: bool) -> None:
    """In a forked child: end the recording, if one was under way, without touching Kineto, and let the child exit."""
    if not _process["started"]:
        return
    _process["forked"] = True
    if recording:
        torch: Any = sys.modules["torch"]
        torch._C._autograd._enable_record_function(False)
        if type(sys.getprofile()).__name__ == _PROFILES_FOR_TORCH:
            sys.setprofile(None)  # one of the job's own stays
    _leave_without_destructors()


def _leave_without_destructors() -> None:
    """Have exit() flush C's streams and then leave, before it comes to the destructors of objects made until now."""
    import ctypes

    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit") and hasattr(libc, "_exit"):  # glibc; its handlers run last in, first out
        libc.on_exit(libc._exit, None)
        libc.__cxa_atexit(libc.fflush, None, None)


@contextlib.contextmanager
def _silent_kineto() -> Iterator[None]:
    """Keep Kineto off the job's stderr, unless the user set its level."""
    if "KINETO_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["KINETO_LOG_LEVEL"] = _KINETO_SILENT
    try:
        yield
    finally:
        os.environ.pop("KINETO_LOG_LEVEL", None)


@contextlib.contextmanager
def _silent_warnings(torch: Any) -> Iterator[None]:
    """While torch's C++ says on stderr which annotations of the script were open when the profiler stopped."""
    try:
        import ctypes

        library = os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so")
        level = ctypes.c_int.in_dll(ctypes.CDLL(library), "FLAGS_caffe2_log_level")
    except (AttributeError, OSError, ValueError):  # another build of torch
        yield
        return
    before = level.value
    level.value = max(before, _ERRORS_ONLY)
    try:
        yield
    finally:
        level.value = before


def _raise_unless_whole(path: str) -> None:
    """`save` does not say when the disk was full: look for the end of the JSON text."""
    if not os.path.exists(path):
        raise OSError("the trace could not be written (disk full?)")
    with open(path, "rb") as trace:
        size = os.fstat(trace.fileno()).st_size
        trace.seek(max(0, size - _TAIL))
        if not trace.read().rstrip().endswith(b"}"):
            raise OSError(f"the trace was cut off after {size} bytes (disk full?)")
