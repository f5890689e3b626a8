"""The line sampler on real threads that sleep, compute, hold the interpreter lock and collect garbage."""

import gc
import os
import random
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect.garbage import Collector
from stepscope.collect.line_sampler import lines
from stepscope.collect.line_sampler.lines import Sampler
from stepscope.collect.origins import Origins
from stepscope.collect.recorder import Recorder
from stepscope.collect.sources import Sources
from stepscope.collect.step_clock.clock import State
from stepscope.run_format.records import FLAG_COLLECTOR

from .recorded_lines import Recorded

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., Recorded]]:
    """Runs a function, or the text of a script of the user's, under the sampler; gives what was written."""

    def run(job: Callable[[State], object] | str, hz: float = 200, file: Path = tmp_path / "train.py") -> Recorded:
        state, recorder = State(), Recorder(str(tmp_path / "rank"))
        state.thread = threading.get_ident()
        sampler = Sampler(state, recorder, hz, sources=Sources(lambda _: None, Origins()))
        collector = Collector(state, sampler)
        if isinstance(job, str):
            script = textwrap.dedent(job)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(script)
            os.utime(file, (1, 1))  # it is as it was when this process began
            code = compile(script, str(file), "exec")
        sampler.start()
        collector.start()
        try:
            names = {"state": state, "__name__": "__main__"}
            _exec_below_the_tests(code, names) if isinstance(job, str) else job(state)
        finally:
            for each in (collector, sampler, recorder):
                each.close()
        return Recorded(tmp_path / "rank")

    others = list(gc.callbacks)  # of the test runner's plugins
    yield run
    assert gc.callbacks == others


def _exec_below_the_tests(code: Any, names: dict[str, Any]) -> None:
    """Run `code` in a stack that begins with it, as a script's does."""
    error: list[BaseException] = []
    state = names["state"]

    def run() -> None:
        state.thread = threading.get_ident()
        try:
            exec(code, names)
        except BaseException as raised:  # noqa: BLE001  # handed on to the test's thread
            error.append(raised)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if error:
        raise error[0]


@pytest.mark.alone
def test_time_goes_to_the_lines_in_proportion(record: Callable[..., Recorded]) -> None:
    took = [0.0, 0.0]

    def job(state: State) -> None:
        begin = time.monotonic()
        while time.monotonic() - begin < 2:
            before = time.monotonic()
            time.sleep(0.005)  # short
            between = time.monotonic()
            time.sleep(0.045)  # long
            took[0] += between - before
            took[1] += time.monotonic() - between

    recorded = record(job)
    short, long = recorded.weight("time.sleep(0.005)  # short"), recorded.weight("time.sleep(0.045)  # long")
    assert short + long == pytest.approx(sum(took), rel=0.25)
    assert long / (short + long) == pytest.approx(took[1] / sum(took), abs=0.15), "half if calls were counted"


def test_a_stack_is_described(record: Callable[..., Recorded], tmp_path: Path) -> None:
    recorded = record("""
        import json

        def write_log(rows):
            for _ in range(30): text = json.dumps(rows, default=str, indent=1)

        def main():
            write_log([{"ä": [index] * 5} for index in range(3000)])

        main()
    """)
    stack = recorded.stack("for _ in range(30): text = json.dumps(rows, default=str, indent=1)")
    script = str(tmp_path / "train.py")
    outer = [frame for frame in stack["frames"] if frame[0] == script]
    assert outer == [[script, 10, "<module>"], [script, 8, "main"], [script, 5, "write_log"]]
    assert stack["frames"][-1] == [script, 5, "write_log"]
    assert stack["texts"][-3:] == ["main()", 'write_log([{"ä": [index] * 5} for index in range(3000)])', stack["text"]]
    assert stack["call"][0] == "json/__init__.py"
    assert stack["call"][2] == "dumps"
    assert stack["leaf"][0].startswith("json/")
    assert stack["segment"] == "json.dumps(rows, default=str, indent=1)"


@pytest.mark.alone
def test_a_call_that_holds_the_lock_is_charged_in_full(record: Callable[..., Recorded]) -> None:
    took = []

    def job(state: State) -> None:
        values = list(range(2_000_000))
        random.Random(0).shuffle(values)
        time.sleep(0.1)
        begin = time.monotonic()
        values.sort()  # held
        took.append(time.monotonic() - begin)
        time.sleep(0.1)

    recorded = record(job)
    assert recorded.weight("values.sort()  # held") == pytest.approx(took[0], rel=0.15, abs=0.06)


@pytest.mark.alone
def test_what_comes_after_a_call_that_holds_the_lock_gets_its_share(record: Callable[..., Recorded]) -> None:
    """A sampler that looks a while after its last look comes too late, each time, for what is over by then."""
    took = []

    def job(state: State) -> None:
        asleep, begin = 0.0, time.monotonic()
        while time.monotonic() - begin < 4:
            sum(range(4_000_000))
            before = time.monotonic()
            time.sleep(0.015)  # next
            asleep += time.monotonic() - before
        took.append(asleep / (time.monotonic() - begin))

    recorded = record(job, hz=25)
    share = recorded.weight("time.sleep(0.015)  # next") / sum(sample["weight"] / 1e9 for sample in recorded.samples)
    assert took[0] / 2 < share < took[0] * 2


@pytest.mark.alone
def test_step_and_phase_in_flight(record: Callable[..., Recorded]) -> None:
    took = []

    def job(state: State) -> None:
        for step in range(4):
            state.step = step
            state.phase = step % 5
            begin = time.monotonic()
            time.sleep(0.2)
            took.append(time.monotonic() - begin)

    recorded = record(job)
    for step in range(4):
        here = [sample for sample in recorded.samples if sample["step"] == step]
        assert sum(sample["phase"] != step % 5 for sample in here) <= 1 < len(here)  # a look between two assignments
        assert sum(sample["weight"] for sample in here) / 1e9 == pytest.approx(took[step], abs=0.1)


@pytest.mark.alone
def test_nothing_is_sampled_while_the_thread_is_unknown(record: Callable[..., Recorded]) -> None:
    took = []

    def job(state: State) -> None:
        state.thread = 0
        time.sleep(0.5)
        state.thread = threading.get_ident()
        begin = time.monotonic()
        time.sleep(0.2)
        took.append(time.monotonic() - begin)

    recorded = record(job)
    assert sum(sample["weight"] for sample in recorded.samples) / 1e9 == pytest.approx(took[0], abs=0.15)


@pytest.mark.alone
def test_a_late_sampler_does_not_speak_for_more_than_a_second(
    record: Callable[..., Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LATE_NS", 5_000_000)
    monkeypatch.setattr(lines, "compiled", None)  # else it is not held up by a call
    monkeypatch.setattr(lines, "HARMLESS", True)  # also with Python 3.11: nothing here walks while it collects
    took = []

    def job(state: State) -> None:
        values = list(range(2_000_000))
        random.Random(0).shuffle(values)
        time.sleep(0.05)
        state.step = 5  # two steps and more went by: no single call held the sampler up
        begin = time.monotonic()
        values.sort()
        took.append(time.monotonic() - begin)
        time.sleep(0.05)

    longest = max(sample["weight"] for sample in record(job, hz=25).samples if sample["step"] == 5)
    assert longest / 1e9 < took[0] / 4


@pytest.mark.alone
def test_a_long_collection_is_a_sample_of_its_own(record: Callable[..., Recorded]) -> None:
    took = []

    def job(state: State) -> None:
        graph = [[index] for index in range(1_000_000)]
        time.sleep(0.1)
        before, begin = state.gc_ns, time.monotonic_ns()
        gc.collect()  # here
        took.append((time.monotonic_ns() - begin, state.gc_ns - before))
        time.sleep(0.1)
        del graph

    others, gc.callbacks[:] = list(gc.callbacks), []  # the test runner's plugins and heap take their time too
    gc.freeze()
    recorded = record(job)
    gc.unfreeze()
    gc.callbacks[:] = others
    ((wall, counted),) = took
    assert counted == pytest.approx(wall, rel=0.2)
    collections = [sample for sample in recorded.samples if sample["flags"] == FLAG_COLLECTOR]
    (ours,) = [sample for sample in collections if recorded.stacks[sample["stack"]]["text"] == "gc.collect()  # here"]
    assert ours["weight"] == pytest.approx(counted, rel=0.01)
    assert recorded.weight("gc.collect()  # here") < wall / 5e9  # not charged a second time
    begin = min(sample["time"] - sample["weight"] for sample in recorded.samples)
    total = sum(sample["weight"] for sample in recorded.samples)
    assert total == pytest.approx(recorded.samples[-1]["time"] - begin, rel=0.15, abs=30_000_000)


def test_collections_of_other_threads_are_not_the_steps(tmp_path: Path) -> None:
    state = State()
    state.thread = threading.get_ident()
    collector = Collector(state, None)
    others = list(gc.callbacks)
    collector.start()
    try:
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        assert state.gc_ns == 0
        gc.collect()
        assert state.gc_ns > 0
    finally:
        collector.close()
        collector.close()
    assert gc.callbacks == others


def test_more_stacks_than_are_kept_become_one(record: Callable[..., Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_STACKS", 5)
    sleeps = "\n".join(f"time.sleep(0.02)  # {index}" for index in range(12))
    recorded = record("import time\n" + sleeps)
    assert len(recorded.stacks) == 6
    assert recorded.stacks[5]["leaf"][0] == "<other stacks>"
    assert [note["why"] for note in recorded.notes] == ["more than 5 different stacks: the rest is one entry"]
    assert sum(sample["weight"] for sample in recorded.samples) > 0.15e9


def test_a_program_without_user_code_falls_back_to_its_package(
    tmp_path: Path,
) -> None:
    file = tmp_path / "site-packages" / "program" / "main.py"
    stack = _in_a_process(tmp_path, file).stack("time.sleep(0.05)")
    assert [frame[0] for frame in stack["frames"]] == ["program/main.py", "program/main.py"]
    assert stack["leaf"] == ["program/main.py", 5, "work"]


def _in_a_process(tmp_path: Path, file: Path) -> Recorded:
    """A program installed in site-packages, started by a console script of Python's own folder."""
    file.parent.mkdir(parents=True)
    (file.parent / "__init__.py").write_text("")
    file.write_text("import time\n\ndef work():\n for _ in range(8):\n  time.sleep(0.05)\n\ndef main():\n work()\n")
    start = f"""
import sys, threading
sys.path[:0] = [{str(SOURCE)!r}, {str(file.parent.parent)!r}]
sys.argv[0] = "program"
from stepscope.collect.origins import Origins
from stepscope.collect.sources import Sources
from stepscope.collect.step_clock.clock import State
from stepscope.collect.line_sampler.lines import Sampler
from stepscope.collect.recorder import Recorder
from program.main import main
state = State()
state.thread = threading.get_ident()
sampler = Sampler(state, Recorder({str(tmp_path / "rank")!r}), 100, sources=Sources(lambda _: None, Origins()))
sampler.start()
main()
sampler.close()
"""
    subprocess.run([sys.executable, "-c", start], check=True, timeout=60)
    return Recorded(tmp_path / "rank")


def test_a_full_disk_ends_the_lines_and_nothing_else(tmp_path: Path) -> None:
    state, recorder = State(), Recorder(str(tmp_path / "rank"))
    state.thread = threading.get_ident()
    sampler = Sampler(state, recorder, 500)
    assert sampler.file is not None
    sampler.file.close()  # every write raises from here on, as on a full disk
    sampler.start()
    deadline = time.monotonic() + 10
    while recorder.noted == 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sampler._ended.acquire(timeout=5), "the thread ends where it can write no more"
    assert [note["what"] for note in Recorded(tmp_path / "rank").notes] == ["lines"]


def test_a_forked_child_neither_hangs_nor_writes(tmp_path: Path) -> None:
    script = f"""
import gc, os, sys, threading, time
sys.path.insert(0, {str(SOURCE)!r})
from stepscope.collect.step_clock.clock import State
from stepscope.collect.origins import Origins
from stepscope.collect.garbage import Collector
from stepscope.collect.line_sampler.lines import Sampler
from stepscope.collect.recorder import Recorder
state = State()
state.thread = threading.get_ident()
sampler = Sampler(state, Recorder({str(tmp_path / "rank")!r}), 500)
sampler.start()
collector = Collector(state, sampler)
collector.start()
time.sleep(0.1)
for abandoning in (True, False):
    child = os.fork()
    if not child:
        if abandoning:
            sampler.abandon()
            collector.abandon()
        rows = [[index] for index in range(300_000)]
        gc.collect()
        size = os.path.getsize({str(tmp_path / "rank" / "lines.bin")!r})
        sampler.close()
        collector.close()
        sys.exit(0 if size == os.path.getsize({str(tmp_path / "rank" / "lines.bin")!r}) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
sampler.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_the_jobs_random_numbers_and_threads_are_left_alone(record: Callable[..., Recorded]) -> None:
    random.seed(7)
    expected = [random.random() for _ in range(3)]
    random.seed(7)
    seen = []

    def job(state: State) -> None:
        time.sleep(0.05)
        seen.append(threading.active_count())

    before = threading.active_count()
    record(job)
    assert [random.random() for _ in range(3)] == expected
    assert seen == [before]


def test_closing_twice_and_an_unstarted_sampler(tmp_path: Path) -> None:
    sampler = Sampler(State(), Recorder(str(tmp_path / "rank")), 25)
    sampler.close()
    sampler.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
def test_samples_are_on_disk_about_a_second_later(tmp_path: Path) -> None:
    """A process killed without warning loses a second of samples."""
    script = f"""
import os, sys, threading, time
sys.path.insert(0, {str(SOURCE)!r})
from stepscope.collect.step_clock.clock import State
from stepscope.collect.line_sampler.lines import Sampler
from stepscope.collect.recorder import Recorder
state = State()
state.thread = threading.get_ident()
Sampler(state, Recorder({str(tmp_path / "rank")!r}), 50).start()
until = time.monotonic() + 2.5
while time.monotonic() < until: time.sleep(0.01)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == -9
    recorded = Recorded(tmp_path / "rank")
    assert sum(sample["weight"] for sample in recorded.samples) / 1e9 > 0.8
    assert {sample["stack"] for sample in recorded.samples} <= set(recorded.stacks)
