"""The traced window: torch's profiler for a few steps of the job, started and stopped between two steps.

A window goes through: wait, a *look* at one step (see estimate.py), warm-up (the profiler is prepared), recording,
export. From the look follow how many steps fit and after how much CPU time of the training thread, because a thread
that waits makes no events, a recording has grown too large. Where only one fits, and no certain ones were asked for,
the look is the trace. A second thread watches a recording, and has it cut short: at the next backward or loader fetch,
or, in a main thread, between any two bytecodes.

`boundary` and `edge` must be called outside torch's own annotations (see tracer.py). Nothing of ours is raised here.
"""

from __future__ import annotations

import os
import time

from ...run_format.files import WINDOWS
from ...run_format.records import FLAG_TRACED, FLAG_TRACING
from ..guards import from_signal_handler, own_errors
from ..recorder import clock_reading
from .event_estimate import LOOK_CPU_NS, Estimate
from .recording import Recording
from .schedule import Plan, plan
from .tracer import (
    Tracer,
    another_is_active,
    has_device_work,
    repair_forked_child,
    resolve_activities,
    script_made_a_profiler,
    watch_other_profilers,
    within_backward,
)

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...run_format.options import RecordingOptions
    from ..recorder import Recorder
    from ..step_clock.clock import State

__all__ = ["Window"]

DROP_AFTER_STOP_NS = 20_000_000_000
"""A stop that took so long (millions of events) announces an export of minutes and a file of gigabytes: dropped."""
_LEFT_OPEN = "an annotation of the script lasts longer than a step: torch's profiler must not run again while it does"

_kept_by_child: list[Any] = []  # freeing a running profiler makes torch print


class Window:
    """The windows of one process. `live` turns false when none is left."""

    def __init__(self, options: RecordingOptions, recorder: Recorder, state: State) -> None:
        self.live = bool(options.trace)
        self._recorder, self._state = recorder, state
        self._schedule: dict[str, Any] = options.trace or {}
        self._extras: list[str] = sorted(options.extras)
        self._wanted: list[str] | None = options.activities
        self._max_ns = int(options.trace_seconds * 1e9)
        self._max_events = options.trace_events
        self._any_step_will_do = options.any_step
        self._index = self._upcoming = self._wake = self._late_flags = 0
        self._busy = self._script_profiles = False
        self._tracer: Tracer | None = None
        self._look: Recording | None = None
        self._recording: Recording | None = None
        self._unwatch: Callable[[], None] | None = None
        self._plan = Plan(-1, 0, 0, 0)
        self._forget()
        if self.live:
            self._guarded(self._arm)

    @property
    def active(self) -> bool:
        """Whether the profiler runs."""
        return self._look is not None or self._recording is not None

    def boundary(self, step: int) -> int:
        """Step `step` has ended: start, stop or export what is due. Returns the flags of the next step."""
        self._upcoming = step + 1
        if step + 1 < self._wake or not self.live or within_backward():
            return 0
        return self._guarded(self._advance)

    def edge(self) -> int:
        """Inside a step with flags: cut a recording that grew too large. Returns more flags for the step in flight."""
        flags, self._late_flags = self._late_flags, 0
        running = self._look or self._recording
        if running is not None and running.overdue and not self._busy and running.in_its_thread():
            flags |= 0 if within_backward() else self._guarded(self._cut)  # the backward pass has an edge behind it
        return flags

    def close(self) -> None:
        """The job ends: export what is recorded, say why a window is missing. A second call does nothing."""
        if self.live:
            self._guarded(self._end_of_job)

    def abandon(self) -> None:
        """In a forked child: there is no window, and a profiler that was running must not go on recording here."""
        running = self._look or self._recording
        self._busy = True  # the child's own profilers are no business of ours
        if self._tracer is not None:
            _kept_by_child.append(self._tracer)
        if running is not None:
            _kept_by_child.append(running.abandon())
        repair_forked_child(running is not None)
        self._retire()

    # -- the course of a window --------------------------------------------------------------------------------------

    def _arm(self) -> int:
        self._unwatch = watch_other_profilers(self._other_profiler)
        self._next_window(0)
        return 0

    def _next_window(self, index: int) -> None:
        planned = plan(self._schedule, index)
        if planned is None:
            self._retire()
            return
        self._index, self._plan = index, planned
        self._wake = planned.look - 1 if planned.look >= 0 else planned.warmup
        self._forget()

    def _forget(self) -> None:
        """Nothing is known about the window to come."""
        self._start_ns = self._stop_ns = self._export_ns = 0
        self._estimate = Estimate()
        self._clocks: list[dict[str, int]] = []  # read at both ends of a recording: Kineto's is the wall clock
        self._searched = False  # for a profiler of the script's: once a window is enough, starts are seen anyway
        self._activities: list[str] = []

    def _advance(self) -> int:
        upcoming, planned = self._upcoming, self._plan
        if self._recording is not None:
            return self._next_recorded(self._recording)
        if self._look is not None:
            if self._end_look(self._look, cut=False):
                return FLAG_TRACING
        elif upcoming == planned.look - 1:
            self._estimate.begin_step()
            return 0
        elif upcoming == planned.look:
            self._start_look()
            return FLAG_TRACING
        if upcoming < planned.warmup or self._too_large():
            return FLAG_TRACING
        if self._tracer is None and not self._prepare():
            return FLAG_TRACING
        if upcoming < planned.first or self._tracer is None:
            return FLAG_TRACING
        self._record(self._tracer)
        return FLAG_TRACED | FLAG_TRACING

    def _start_look(self) -> None:
        begin = time.monotonic_ns()
        if self._stands_back():
            return
        self._activities = resolve_activities(self._wanted)
        self._estimate.device = "cuda" in self._activities
        self._estimate.end_step()
        if self._estimate.events is not None:
            return
        tracer = Tracer(["cpu"], self._extras)
        tracer.prepare()
        self._look = Recording(tracer, self._state, self._interrupt)
        self._look.start(LOOK_CPU_NS, 0)
        self._look.annotate(self._upcoming)
        self._clocks = [clock_reading()]
        self._start_ns += time.monotonic_ns() - begin

    def _end_look(self, look: Recording, cut: bool) -> bool:
        """Learn from the look; returns whether it was kept as the trace."""
        begin = time.monotonic_ns()
        cpu = look.cpu()
        self._look = None
        tracer = look.stop()
        self._estimate.looked(tracer.count_events(), cpu, cut)
        self._start_ns += time.monotonic_ns() - begin
        left_open, will_do = tracer.left_open(), self._any_step_will_do and self._activities == ["cpu"] and not cut
        if will_do and (left_open or self._estimate.steps_in(self._max_events) == 1):
            self._plan.first = self._plan.last = self._upcoming - 1
            self._export(tracer, _LEFT_OPEN if left_open else self._why_short(self._plan.last, ""))
        else:
            tracer.discard()
            will_do = False
            if left_open:
                self._conclude("abandoned", _LEFT_OPEN)
        if left_open:
            self._retire()
        return will_do or left_open

    def _too_large(self) -> bool:
        if self._estimate.steps_in(self._max_events) != 0:
            return False
        self._conclude(
            "abandoned",
            f"a step holds about {self._estimate.events:,} events, more than the {self._max_events:,} "
            "that a trace may have (trace_events)",
        )
        return True

    def _prepare(self) -> bool:
        begin = time.monotonic_ns()
        if self._stands_back():
            return False
        self._activities = resolve_activities(self._wanted)
        self._tracer = Tracer(self._activities, self._extras)
        self._tracer.prepare()
        self._start_ns += time.monotonic_ns() - begin
        return True

    def _record(self, tracer: Tracer) -> None:
        begin = time.monotonic_ns()
        planned, first = self._plan, self._upcoming
        length, fitting = planned.last - planned.first + 1, self._estimate.steps_in(self._max_events)
        planned.first, planned.last = first, first + min(length, fitting or length) - 1
        self._tracer, self._recording = None, Recording(tracer, self._state, self._interrupt)
        self._recording.start(self._estimate.cpu_limit_ns(self._max_events), self._max_ns)
        self._recording.annotate(first)
        self._clocks = [clock_reading()]
        self._start_ns += time.monotonic_ns() - begin

    def _next_recorded(self, recording: Recording) -> int:
        if recording.overdue or self._upcoming > self._plan.last:
            self._finish(recording, self._upcoming - 1)
            return FLAG_TRACING
        recording.annotate(self._upcoming)
        return FLAG_TRACED  # that a look is kept as one is known too late for it; windows.jsonl says so

    def _cut(self) -> int:
        if self._look is not None:
            self._end_look(self._look, cut=True)
        elif self._recording is not None:
            self._finish(self._recording, self._upcoming - 1)
        return FLAG_TRACING

    def _interrupt(self) -> None:
        """In the main thread, between two bytecodes of whatever it does."""
        self._late_flags = self.edge()

    def _finish(self, recording: Recording, last: int) -> None:
        """Stop; export the steps up to `last`, the last whole one."""
        begin = time.monotonic_ns()
        reason = self._why_short(last, recording.overdue)
        self._recording, self._plan.last = None, last
        tracer = recording.stop()
        self._stop_ns = time.monotonic_ns() - begin
        if plan(self._schedule, self._index + 1) is not None and tracer.left_open():
            self._schedule = {**self._schedule, "repeat": self._index + 1}  # no window comes after this one
        if last < self._plan.first:
            self._conclude("abandoned", reason)
        elif self._stop_ns > DROP_AFTER_STOP_NS:
            self._conclude("abandoned", f"the trace is too large: to stop it took {self._stop_ns // 10**9} s")
        else:
            self._export(tracer, reason)

    def _export(self, tracer: Tracer, reason: str | None) -> None:
        begin = time.monotonic_ns()
        self._clocks.append(clock_reading())
        name = f"window-{self._index:03d}.pt.trace.json"
        path = os.path.join(self._recorder.directory, name)
        tracer.save(path)
        if "cuda" in self._activities and not has_device_work(path):
            reason = (reason + "; " if reason else "") + "no work of the device was recorded (CUPTI gave none)"
        tracer.discard()
        self._export_ns = time.monotonic_ns() - begin
        self._conclude("recorded", reason, name)

    def _why_short(self, last: int, overdue: str) -> str | None:
        planned, wanted = self._plan, int(self._schedule.get("active", 3))
        done = f"{last - planned.first + 1} of {wanted} steps: "
        if last < planned.last:
            return done + f"cut in step {last + 1}, {overdue or 'the job ended'}"
        if last - planned.first + 1 < wanted:
            held, allowed = f"{self._estimate.events:,}", f"{self._max_events:,}"
            return done + f"a step holds about {held} events, a trace may have {allowed} (trace_events)"
        return None

    def _end_of_job(self) -> int:
        running = self._look or self._recording
        if running is not None and not running.in_its_thread():
            self._conclude("abandoned", "the job ended outside the training thread, during the window")
        elif self._recording is not None:
            self._finish(self._recording, self._upcoming - 1)
        else:
            if self._look is not None:
                self._look.stop()
            if self._tracer is not None:
                self._tracer.unprepare()
            if not self._index or int(self._schedule.get("repeat", 1)):  # without end: nothing is missing
                due = f"the window was to begin at step {self._plan.first}"
                self._conclude("abandoned", f"the job ended after {self._upcoming} steps; {due}")
        self._retire()
        return 0

    # -- other profilers, failures, the record -----------------------------------------------------------------------

    def _stands_back(self) -> bool:
        """Look for a profiler of the script's own; if there is one, leave the field to it."""
        found = None
        if another_is_active():
            found = "a profiler is running"
        elif self._script_profiles:
            found = "the script ran torch's profiler"
        elif not self._searched:
            self._searched = True
            made = script_made_a_profiler()
            if made is not None:
                found = "the script made a " + made
        if found is not None:
            self._conclude("stood back", found + "; two profilers cannot run at once")
            self._retire()
        return found is not None

    def _other_profiler(self) -> None:
        """A profiler of torch is about to be prepared or started; one that is not ours goes first."""
        if self._busy:
            return
        self._script_profiles = True
        running = self._look or self._recording
        if running is not None and not running.in_its_thread():
            running.overdue = "the script started torch's profiler in another thread"
        elif self.live and (running is not None or self._tracer is not None) and not within_backward():
            self._late_flags = self._guarded(self._give_way)

    def _give_way(self) -> int:
        running = self._look or self._recording
        if running is not None:
            running.stop().discard()
        elif self._tracer is not None:
            self._tracer.unprepare()
        self._conclude("stood back", "the script started torch's profiler; two profilers cannot run at once")
        self._retire()
        return FLAG_TRACING

    def _guarded(self, act: Callable[[], int]) -> int:
        """`act()`; an exception ends all windows; only what a signal handler of the job raises is the job's, too."""
        self._busy = True
        try:
            return act()
        except Exception as error:
            self._fail(error)
            if from_signal_handler(error):
                raise
            return FLAG_TRACING
        finally:
            self._busy = False

    def _fail(self, error: Exception) -> None:
        running = self._look or self._recording
        self._retire()
        if running is not None:
            try:
                running.stop()
            except own_errors() as second:
                self._recorder.note("traced window", second)
        self._conclude("failed", f"{type(error).__name__}: {error}")

    def _retire(self) -> None:
        self.live = self._state.traced = False
        self._tracer = self._look = self._recording = None
        unwatch, self._unwatch = self._unwatch, None
        if unwatch is not None:
            unwatch()

    def _conclude(self, status: str, reason: str | None, trace: str | None = None) -> None:
        """Write this window's line and plan the next."""
        self._tracer = self._look = self._recording = None
        row = {
            "window": self._index,
            "status": status,
            "reason": reason,
            "first_step": self._plan.first,
            "last_step": self._plan.last,
            "trace": trace,
            "clocks": self._clocks,
            "start_cost_ns": self._start_ns,
            "stop_cost_ns": self._stop_ns,
            "export_cost_ns": self._export_ns,
            "step_events": self._estimate.events,
            "options": {
                **self._schedule,
                "activities": self._activities,
                "with": self._extras,
                "trace_seconds": self._max_ns / 1e9,
                "trace_events": self._max_events,
            },
        }
        if status != "recorded":
            self._recorder.note(f"traced window {self._index}", reason or status)
        try:
            self._recorder.append(WINDOWS, row)
        except own_errors() as error:
            self._recorder.note(WINDOWS, error)
        if self.live:
            self._next_window(self._index + 1)
