"""The compiled hooks do what the Python hooks do, to the byte, and nobody in the job can tell."""

import copy
import functools
import gc
import inspect
import os
import pickle
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stepscope.collect.step_clock.marks import mark_step
from stepscope.collect.step_clock.observer import Observer

from .fake_job import Job, Optimizer, Probe, Script, probe

FIELDS = (
    "busy", "by_backward", "closures", "depth", "early", "expected", "failed", "flags", "foreign", "forward",
    "backward", "gc_mark", "inner_forward", "inner_steps", "inside", "mark", "micro", "optimizer", "spent", "start",
    "thread", "unobserved", "voting",
)  # fmt: skip
OF_USES = ("away", "counted", "fetches", "flags", "grad", "open", "samples", "step", "train", "wait")
OF_THE_STATE = ("phase", "step", "gc_ns", "thread", "traced")
EVENTS = (
    *Script.EVENTS,
    "train",
    "train",
    "thread",
    "edge",
    "boundary",
    "collector",
    "unknown",
    "gone",
    "full",
    "turn",
    "mark",
    "made",
)


def happen(script: Script, event: str, number: int) -> None:
    """An event of the script, or something that befalls the clock from outside."""
    job = script.job
    if event == "thread":
        job.thread = 7 + number % 3 // 2
    elif event == "edge":
        job.replace(edge=(lambda: number % 2 * 2) if number % 3 else None)
    elif event == "boundary":
        job.replace(boundary=functools.partial(boundary, job, number) if number % 3 else None)
    elif event == "collector":
        job.state.gc_ns += number
    elif event == "unknown":
        script.second._stepscope_use.count = lambda batch: -(1 << 50) if number % 2 else number
    elif event == "gone":
        script.leader = Optimizer()
        gc.collect(0)
    elif event == "turn":
        script.leader, script.other = script.other, script.leader
    elif event == "mark" and number % 20 == 0:
        mark_step(job.clock)
    elif event == "made":
        job.clock.has_optimizer = number % 3 > 0
    elif event == "full" and number % 50 == 0:
        job.replace(emit=full)
    else:
        with suppress(ValueError):
            script.do(event, number) if event in Script.EVENTS else None


def boundary(job: Job, number: int, step: int) -> int:
    job.spend(number)
    return number % 4


def full(record: bytes) -> None:
    raise OSError(28, "No space left on device")


def everything(script: Script) -> dict[str, Any]:
    """All that the clock, its loaders and its state hold."""
    clock, uses = script.job.clock, (script.first._stepscope_use, script.second._stepscope_use)
    return {
        "records": script.job.records,
        "notes": script.job.notes,
        "phases": script.job.phases,
        "clock": [getattr(clock, name) for name in FIELDS],
        "leads": bool(clock.leader),
        "touched": [uses.index(use) for use in clock.touched],
        "training": [uses.index(use) for use in clock.training],
        "fed": [uses.index(use) for use in clock.fed],
        "last": None if clock.last is None else uses.index(clock.last),
        "consumed": None if clock.consumed is None else uses.index(clock.consumed),
        "state": [getattr(script.job.state, name) for name in OF_THE_STATE],
        "uses": [[getattr(use, name) for name in OF_USES] for use in uses],
    }


BEGINNINGS: list[list[tuple[str, int]]] = [
    [],
    [("train", 1)] * 2,
    [("plain", 1), ("leader", 2)] * 2,  # without a loader
    [("grad", 0), ("fetch", 3), ("grad", 1), ("plain", 1), ("leader", 2)],  # gradients on around the forward only
    [("second", 1), ("fetch", 3), ("plain", 1), ("leader", 2)],  # a zipped pair
    [("closure", 5)] * 3,
    [("fetch", 3), ("plain", 4_000_000_000)] * 21,  # without an optimizer
    [("made", 0), ("fetch", 3), ("plain", 4)],  # without any of torch's
    [("fetch", 3), ("plain", 1), ("leader", 2), ("plain", 1), ("other", 2), ("turn", 0)],  # optimizers take turns
    [("plain", 1), ("leader", 2), ("gone", 0), ("plain", 1), ("leader", 2), ("plain", 3), ("other", 4)],
    [("fetch", 3), ("plain", 1), ("mark", 0)],
    [("thread", 2), ("fetch", 3), ("thread", 1), ("plain", 1), ("leader", 2)],  # a loader in another thread
]

EVERYDAY: list[tuple[str, int]] = [
    ("grad", 0), ("fetch", 3), ("second", 5), ("grad", 1), ("train", 1), ("second", 5), ("train", 1), ("closure", 5),
    ("train", 1), ("fetch", 3), ("fetch", 3), ("plain", 2), ("plain", 2), ("leader", 2), ("fetch", 3), ("plain", 2),
    ("end", 4), ("iterate", 9), ("train", 1), ("spend", 50), ("leader", 2), ("closure", 5),
    ("fetch", 3), ("leader", 5), ("end", 4), ("plain", 2), ("leader", 2), ("around", 6),
]  # fmt: skip


@given(st.sampled_from(BEGINNINGS), st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 1000)), max_size=80))
def test_whatever_happens_both_kinds_write_the_same_records(
    beginning: list[tuple[str, int]], events: list[tuple[str, int]]
) -> None:
    compare(beginning + events)


@pytest.mark.parametrize("beginning", BEGINNINGS, ids=lambda events: events[0][0] if events else "nothing")
def test_each_way_to_train_writes_the_same_records(beginning: list[tuple[str, int]]) -> None:
    compare([*beginning * 2, *EVERYDAY, *beginning * 2])


def compare(events: list[tuple[str, int]]) -> None:
    compiled, python = Script("compiled"), Script("python")
    for event, number in events:
        happen(compiled, event, number)
        happen(python, event, number)
        assert everything(compiled) == everything(python), event


@pytest.fixture
def compiled() -> Probe:
    return probe("compiled")


def test_ordinary_steps_need_no_python(compiled: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the other tests here would compare Python with Python."""
    script = Script("compiled")
    for _ in range(3):
        script.do("train", 1)
    for name in ("begin_fetch", "fetched", "enter_backward", "leave_backward", "enter_step", "leave_step", "close"):
        monkeypatch.delattr(compiled.clock.StepClock, name)
    for _ in range(3):
        script.do("train", 1)
    assert [row["step"] for row in script.job.rows] == list(range(6))


# -- what the user's code gives, gets and raises -----------------------------------------------------------------------


class Loop:
    """An iterator that gives and raises what it is told to, under a hook that knows its loader."""

    def __init__(self, job: Job) -> None:
        self._stepscope_use = job.loader()._stepscope_use


def training(job: Job) -> Job:
    source, optimizer = job.loader(), Optimizer()
    for _ in range(3):
        job.train(source, optimizer)
    return job


def test_the_end_of_a_generator_keeps_its_value(job: Job) -> None:
    def end(iterator: object) -> None:
        raise StopIteration("the value")

    hook, loop = job.probe.hooks.next_hook(job.clock, end), Loop(training(job))
    with pytest.raises(StopIteration) as raised:
        hook(loop)
    assert raised.value.value == "the value"


def test_arguments_results_and_exceptions_are_the_very_same(job: Job) -> None:
    training(job)
    told: list[Any] = []
    error = KeyError("mine")

    def original(*args: Any, **kwargs: Any) -> Any:
        told.append((args, kwargs))
        if "fail" in kwargs:
            raise error
        return told

    hooks, optimizer = job.probe.hooks, Optimizer()
    for hook in (
        hooks.backward_hook(job.clock, original),
        hooks.optimizer_hook(job.clock, original, original),
    ):
        told.clear()
        assert hook(optimizer, 2, three=3) is told
        assert told == [((optimizer, 2), {"three": 3})]
        with pytest.raises(KeyError) as raised:
            hook(optimizer, fail=1)
        assert raised.value is error
        assert [frame.name for frame in traceback.extract_tb(error.__traceback__)][-1] == "original"
        assert error.__context__ is None
    assert job.notes == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_samples_are_counted_is_the_users(job: Job, error: type[BaseException]) -> None:
    def interrupted(batch: object) -> int:
        raise error

    training(job)
    loop = Loop(job)
    loop._stepscope_use.count = interrupted
    with pytest.raises(error):
        job.probe.hooks.next_hook(job.clock, lambda iterator: 1)(loop)
    assert job.notes == []


def test_a_note_that_fails_does_not_reach_the_job_unseen(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(what: str, why: object) -> None:
        raise KeyboardInterrupt

    training(job)
    loop = Loop(job)
    loop._stepscope_use.count = lambda batch: int(batch / 0)
    monkeypatch.setattr(job, "clock_failed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.probe.hooks.next_hook(job.clock, lambda iterator: 1)(loop)


def test_an_optimizer_step_without_an_optimizer_raises_what_torch_raises(job: Job) -> None:
    def wrapper(*args: Any) -> None:
        _, *_ = args

    with pytest.raises(ValueError, match="not enough values"):
        job.probe.hooks.optimizer_hook(training(job).clock, wrapper, wrapper)()


def test_a_child_forked_in_a_fetch_begins_anew(job: Job) -> None:
    training(job)
    told, tell = os.pipe()

    def fork(iterator: object) -> int:
        child = os.fork()
        if child == 0:
            job.clock.restart()
        return child

    loop = Loop(job)
    child = job.probe.hooks.next_hook(job.clock, fork)(loop)
    if child == 0:
        os.write(tell, b"%d %d" % (job.clock.thread, len(job.notes)))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(told, 100) == b"0 0"
    os.close(told)
    os.close(tell)
    assert job.clock.thread == 7


# -- how they look -----------------------------------------------------------------------------------------------------


def method(self: object, closure: Callable[[], Any] | None = None, *, more: int = 1) -> object:
    """The user's own words."""
    return self


def test_a_hook_looks_like_the_function_that_it_stands_for(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = job.probe.hooks.backward_hook(job.clock, method)
    assert (hook.__name__, hook.__qualname__, hook.__module__, hook.__doc__) == (
        "method", "method", __name__, "The user's own words.",
    )  # fmt: skip
    assert inspect.signature(hook) == inspect.signature(method)
    assert inspect.isfunction(hook)
    assert inspect.getsource(hook) == inspect.getsource(method)
    assert weakref.ref(hook)() is hook
    assert copy.deepcopy(hook) is hook
    monkeypatch.setattr(sys.modules[__name__], "method", hook)
    assert pickle.loads(pickle.dumps(hook)) is hook
    bound = hook.__get__(job)
    assert (bound(), bound.__func__) == (job, hook)


# -- memory ------------------------------------------------------------------------------------------------------------


def steps_in_earnest(job: Job) -> Iterator[Callable[[], None]]:
    """A step under the real clock, which needs none of this module's Python: fetch, backward, optimizer."""
    parts, state = job.probe, job.probe.clock.State()
    clock = parts.clock.StepClock(
        state, time.monotonic_ns, sys.modules["_thread"].get_ident, lambda: True, Observer(len)
    )
    loop, optimizer, batch = Loop(job), Optimizer(), [torch.ones(8)]
    loop._stepscope_use.count = parts.samples.counter(loop._stepscope_use, 8)
    fetch = parts.hooks.next_hook(clock, lambda iterator: batch)
    backward = parts.hooks.backward_hook(clock, lambda *args, **kwargs: None)
    step = parts.hooks.optimizer_hook(clock, method, method)

    def once() -> None:
        fetch(loop)
        backward(batch, more=batch)
        step(optimizer, None, more=2)

    yield once
    assert state.step > 0


def references(*things: object) -> list[int]:
    return [sys.getrefcount(thing) for thing in things]


def test_many_steps_leave_nothing_behind(job: Job) -> None:
    for once in steps_in_earnest(job):
        cells = [cell.cell_contents for cell in once.__closure__ or ()]
        for _ in range(100):
            once()
        while gc.collect():  # what other tests left may take several rounds: finalizers keep some for the next
            pass
        before, objects = references(*cells, method), len(gc.get_objects())
        for _ in range(20_000):
            once()
        gc.collect()
        assert references(*cells, method) == before
        assert abs(len(gc.get_objects()) - objects) < 100


def test_hooks_and_their_clock_are_freed_together(kind: str) -> None:
    job = training(Job(kind))
    watched = [weakref.ref(job), weakref.ref(job._next), weakref.ref(job._step)]
    del job
    gc.collect()
    assert [reference() for reference in watched] == [None] * 3


def test_without_the_compiled_part_the_python_hooks_are_used_and_said_so() -> None:
    python = probe("python")
    assert (python.fields.kind(), python.fields.compiled) == ("python", None)
    assert python.samples.compiled is None
    assert "Clock" not in [base.__name__ for base in python.clock.StepClock.__mro__]


def test_a_build_for_other_fields_is_not_loaded(compiled: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiled.fields._load() is compiled.fields.compiled
    monkeypatch.setattr(compiled.fields, "FIELDS_VERSION", compiled.fields.FIELDS_VERSION + 1)
    assert compiled.fields._load() is None


def test_an_interrupt_while_the_iterator_is_asked_for_its_loader_is_the_users(job: Job) -> None:
    class Slow:
        @property
        def _stepscope_use(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job.probe.hooks.next_hook(training(job).clock, lambda iterator: 1)(Slow())


def test_what_the_clock_is_given_must_be_a_clock(compiled: Probe) -> None:
    make = compiled.fields.compiled.Hook
    hook = make(Job("compiled").clock, len, len)
    wrong = [(make,), (make, None, len, len), (make, compiled.fields.compiled.Clock(), len, len)]
    for call, *arguments in [*wrong, (hook.backward,), (hook.step,), (hook.next,)]:
        with pytest.raises(TypeError):
            call(*arguments)
