"""What the job's signal handlers raise inside code of the recorder reaches the job; the recorder's errors do not."""

import functools
import gc
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from stepscope.collect.dataloader.batch_recorder import BatchRecorder
from stepscope.collect.dataloader.spans import SpanFile
from stepscope.collect.garbage import Collector
from stepscope.collect.guards import own_errors
from stepscope.collect.probe import _Probe
from stepscope.collect.session import Session
from stepscope.collect.step_clock.state import State
from stepscope.collect.step_clock.training_thread import OFF
from stepscope.collect.torch_profiler.tracer import Tracer


class TooLongError(Exception):
    pass


def raising(number: int, frame: object) -> None:
    raise TooLongError


class Handler:
    def __call__(self, number: int, frame: object) -> None:
        raise TooLongError

    def method(self, number: int, frame: object) -> None:
        raise TooLongError


def with_more(more: int, number: int, frame: object) -> None:
    raise TooLongError


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def guarded(act: Callable[[], Any]) -> str:
    try:
        act()
    except own_errors() as error:
        return f"caught {type(error).__name__}"
    return "nothing raised"


@pytest.mark.parametrize("handler", [raising, Handler(), Handler().method, functools.partial(with_more, 1)])
def test_what_a_handler_raises_passes(handler: Any) -> None:
    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(TooLongError):
        guarded(lambda: signal.raise_signal(signal.SIGUSR1))


def test_what_the_recorder_raises_is_caught() -> None:
    signal.signal(signal.SIGUSR1, raising)
    assert guarded(lambda: [][0]) == "caught IndexError"
    assert guarded(lambda: None) == "nothing raised"


class Hidden:
    """A handler of the job's that cannot be looked at."""

    @property
    def func(self) -> object:
        raise LookupError

    def __call__(self, number: int, frame: object) -> None: ...


def test_a_handler_that_cannot_be_looked_at_costs_the_job_nothing() -> None:
    signal.signal(signal.SIGUSR1, Hidden())
    assert guarded(lambda: [][0]) == "caught IndexError"


def test_a_mistake_while_python_collects_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        collecting = property(lambda self: False)

    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    state = State()
    state.thread = threading.get_ident()
    collector = Collector(state, Broken())  # type: ignore[arg-type]
    collector.start()
    try:
        gc.collect()
        gc.collect()
    finally:
        collector.close()
    assert printed == []
    assert state.gc_ns > 0  # what it can do it does


def test_a_mistake_at_the_end_of_the_job_is_not_printed(tmp_path: Path) -> None:
    session = Session(str(tmp_path), lambda: True)
    del session.clock.turns
    session.close()  # Python calls it at exit, and would print what it raises


def test_a_mistake_in_a_forked_child_is_not_printed(tmp_path: Path) -> None:
    session = Session(str(tmp_path), lambda: True)
    session.clock.observer = None  # type: ignore[assignment]
    session.forked()  # Python calls it in the child, and would print what it raises
    assert session.clock.thread == OFF


def test_a_sample_is_not_lost_to_a_mistake_of_the_recorder(tmp_path: Path) -> None:
    recorder = BatchRecorder(SpanFile(str(tmp_path / "main-1"), {"kind": "main"}), 1)
    del recorder.pending
    recorder.sample(0, 1)
    assert recorder.detail_due == sys.maxsize  # no more of them are recorded


def test_a_trace_that_cannot_be_written_is_an_error_and_not_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with torch.autograd.profiler.profile() as profiler:
        torch.ones(2).sum()
    capfd.readouterr()
    tracer = Tracer.__new__(Tracer)
    tracer._results = profiler.kineto_results
    with pytest.raises(FileNotFoundError):
        tracer.save(str(tmp_path / "gone" / "trace.json"))
    assert capfd.readouterr().err == ""  # Kineto itself would print one
    tracer.save(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").stat().st_size


def test_an_optimizer_is_made_where_it_cannot_be_hooked(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise OSError

    probe = _Probe.__new__(_Probe)
    probe._clock = Session(str(tmp_path), lambda: True).clock
    vars(probe)["_hooks"] = types.SimpleNamespace(optimizer_hook=broken)
    module = types.SimpleNamespace(Optimizer=type("Optimizer", (torch.optim.Optimizer,), {}))
    probe.optimizer(module)

    def step(optimizer: object) -> int:
        return 5

    assert module.Optimizer.profile_hook_step(step).__wrapped__ is step  # torch's own
    assert probe._clock.failed
