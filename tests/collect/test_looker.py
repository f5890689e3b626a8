"""The compiled reader of stacks: what it says of threads that run on, and that it harms none."""

import ctypes
import os
import platform
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect.fields import compiled
from stepscope.collect.line_sampler.copied_code import reads_true
from stepscope.collect.step_clock.state import State

pytestmark = [pytest.mark.slow, pytest.mark.skipif(compiled is None, reason="not built")]

SOURCE = Path(__file__).parents[2] / "src"
SLOT, LATE = 1_000_000, 10**9
PR_GET_TIMERSLACK, SCHED_GETATTR = 30, {"x86_64": 315, "aarch64": 275}

START = """
import sys, threading, time
from stepscope.collect.step_clock.state import State
from stepscope.collect.line_sampler.lines import Sampler
from stepscope.collect.recorder import Recorder
state, recorder = State(), Recorder(sys.argv[1])
state.thread = threading.get_ident()
sampler = Sampler(state, recorder, 1000)
sampler.start()
"""
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
OTHERS = [path for version in VERSIONS for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
PYTHONS = sorted({sys.executable, *map(str, OTHERS)})


def looker(state: State, slot: int = SLOT) -> "compiled.Looker":
    return compiled.Looker(state, looker.__code__, None, slot, LATE, sys.version_info[1])


def names_seen(seen: "compiled.Looker") -> set[str]:
    fresh = seen.fresh()
    return set() if fresh is None else {code[1] for code in fresh[0]}


def alone(reads: Callable[[Any], bool]) -> bool:
    """In a thread of its own, as the sampler asks: the stack of a test is that of many others below it."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(reads, looker(State())).result()


def test_it_says_what_python_says() -> None:
    assert alone(reads_true)


def test_names_of_all_widths_are_copied() -> None:
    names = ["plain", "größe", "長さ", "𝔵𝔵"]
    for name in names:
        scope: dict[str, Any] = {"reads_true": reads_true}
        exec(compile(f"def {name}(seen): return reads_true(seen)\nasked = {name}", f"/tmp/{name}.py", "exec"), scope)
        assert alone(scope["asked"])


def test_deep_recursion_is_cut_at_its_outer_end() -> None:
    def deep(depth: int) -> tuple[int, ...]:
        return deep(depth - 1) if depth else looker(State()).spots(threading.get_ident())

    assert len(deep(600)) == 2 * 400


def test_a_python_whose_memory_is_not_known_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        compiled.Looker(State(), looker.__code__, None, SLOT, LATE, 99)


def test_a_thread_that_has_ended_is_not_seen_and_one_beside_the_main_one_is() -> None:
    state = State()
    seen = looker(state)
    going = threading.Event()

    def beside() -> None:
        state.thread = threading.get_ident()
        going.wait()

    thread = threading.Thread(target=beside)
    thread.start()
    assert seen.watch(50 * SLOT)
    assert "beside" in names_seen(seen)
    going.set()
    thread.join()
    seen.forget()
    assert seen.watch(50 * SLOT)
    assert names_seen(seen) == set()
    assert seen.unread_ns >= 20 * SLOT
    seen.stop()
    assert not seen.watch(50 * SLOT)


@pytest.mark.skipif(sys.platform != "linux", reason="settings of Linux")
def test_only_the_thread_that_watches_is_made_to_wake_on_time() -> None:
    with ThreadPoolExecutor(1) as first:
        before, begin = first.submit(scheduling).result(), scheduling()
        first.submit(looker(State()).prompt).result()
        slack, policy, nice, slice_ns = first.submit(scheduling).result()
        child = subprocess.run(["cat", "/proc/self/timerslack_ns"], capture_output=True, text=True, check=True)
    assert slack == 1
    assert (policy, nice) == before[1:3]
    assert slice_ns <= before[3]
    assert scheduling() == begin
    assert int(child.stdout) == begin[0] > 1


def scheduling() -> tuple[int, int, int, int]:
    """Timer slack, policy, niceness and slice of the calling thread."""
    libc = ctypes.CDLL(None)
    found = ctypes.create_string_buffer(48)
    assert libc.syscall(SCHED_GETATTR[platform.machine()], 0, found, len(found), 0) == 0
    _, policy, _, nice, _, slice_ns, _, _ = struct.unpack("=IIQiIQQQ", found.raw)
    return libc.prctl(PR_GET_TIMERSLACK), policy, nice, slice_ns


def test_a_look_that_comes_late_speaks_for_a_second_at_most_if_steps_went_by() -> None:
    for steps, most in ((5, LATE), (0, 3 * LATE)):
        state = State()
        state.thread = threading.main_thread().ident or 0
        seen = looker(state, slot=20_000_000)
        seen.watch(1)
        time.sleep(1.3)
        state.step += steps
        seen.watch(1)
        names_seen(seen)
        seen.name(0, 0)
        taken = seen.take()
        weights = [int.from_bytes(taken[at + 16 : at + 24], "little") for at in range(0, len(taken), 32)]
        assert 0.9 * LATE < sum(weights) <= most


def test_code_in_the_place_of_code_that_is_gone_is_told_apart() -> None:
    state = State()
    seen = looker(state)
    told: set[str] = set()

    def watch() -> None:
        while seen.watch(20 * SLOT):
            told.update(names_seen(seen))
            seen.take()

    thread = threading.Thread(target=watch)
    state.thread = threading.get_ident()
    thread.start()
    ends, number = time.monotonic() + 2, 0
    while time.monotonic() < ends:
        scope: dict[str, Any] = {}
        text = f"def made_{number}():\n end = now() + 3e-3\n while now() < end: pass"
        exec(text, {"now": time.monotonic}, scope)
        scope[f"made_{number}"]()
        number += 1
    seen.stop()
    thread.join()
    made = {name for name in told if name.startswith("made_")}
    assert made <= {f"made_{index}" for index in range(number)}
    assert len(made) > number / 10


@pytest.mark.parametrize("python", PYTHONS)
def test_forks_threads_and_ends_without_goodbye_are_survived(python: str, tmp_path: Path) -> None:
    job = """
        import os
        def spin(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sorted([3, 1, 2], key=lambda value: [value for value in range(3)])
        for _ in range(10):
            threading.Thread(target=spin, args=(0.01,)).start()
            child = os.fork()
            if not child:
                sampler.abandon()
                spin(0.01)
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
        spin(1.3)
        print(sampler._looker is not None and sampler._turns is None)
    """  # it ends while the sampler runs
    path = tmp_path / "job.py"
    path.write_text(START + textwrap.dedent(job))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-W", "ignore", str(path), str(tmp_path / "rank")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if sys.executable == python:
        assert done.stdout == "True\n"
    assert len((tmp_path / "rank" / "lines.bin").read_bytes()) > 64 + 100 * 32
