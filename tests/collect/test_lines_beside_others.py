"""The sampler beside others: the switch interval and the collector's callbacks stay the job's; stacks that change."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stepscope.collect.line_sampler.locked_looks import HARMLESS

from ..thoroughness import tries

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).parents[2] / "src"

START = """
import os, sys, threading, time
from stepscope.collect.line_sampler import lines
if os.environ["STEPSCOPE_HOOKS"] == "python":
    lines.HARMLESS = True  # also with Python 3.11: only one test here walks among collections
from stepscope.collect.step_clock.state import State
from stepscope.collect.origins import Origins
from stepscope.collect.line_sampler.lines import Sampler
from stepscope.collect.recorder import Recorder
from stepscope.collect.sources import Sources
from stepscope.run_format.records import LINE
state, recorder = State(), Recorder(sys.argv[1])
state.thread = threading.get_ident()
sampler = Sampler(state, recorder, 200, sources=Sources(lambda _: None, Origins()))
sampler.start()
"""


def run(tmp_path: Path, script: str, hooks: str = "") -> list[str]:
    """The words that the script prints; with `hooks` "python" the sampler takes turns with it."""
    path = tmp_path / "job.py"
    path.write_text(START + textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "rank"), str(tries(3, 20))],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE), "STEPSCOPE_HOOKS": hooks},
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("hooks", ["", "python"])
def test_two_milliseconds_of_python_between_calls_that_release_the_lock_are_seen(tmp_path: Path, hooks: str) -> None:
    job = """
        import json
        from pathlib import Path
        python = 0
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < 2_000_000_000:
            began = time.perf_counter_ns()
            while time.perf_counter_ns() - began < 2_000_000:
                pass
            python += time.perf_counter_ns() - began
            time.sleep(0.002)
        whole = time.perf_counter_ns() - begin
        sampler.close()
        rank = Path(sys.argv[1])
        stacks = {row["id"]: row["text"] for row in map(json.loads, (rank / "frames.jsonl").read_text().splitlines())}
        rows = list(LINE.struct.iter_unpack((rank / "lines.bin").read_bytes()[64:]))
        sleep = sum(row[2] for row in rows if "sleep" in stacks[row[3]])
        print(1 - sleep / sum(row[2] for row in rows), python / whole)
    """
    sampled, true = map(float, run(tmp_path, job, hooks))
    assert true > 0.1, "half, or less beside other work"
    assert sampled > true / 4, "with the interval of 5 ms less than 0.01 is seen: only the call that sleeps"


def test_the_interval_is_the_jobs_own_beside_a_thread_at_work_and_at_the_end(tmp_path: Path) -> None:
    job = """
        def interval(expected):
            time.sleep(0.1)
            ends = time.monotonic() + 30  # on a busy machine the sampler may come late to look who is at work
            while round(sys.getswitchinterval(), 6) != expected and time.monotonic() < ends:
                time.sleep(0.01)
            print(round(sys.getswitchinterval(), 6))

        interval(0.0002)
        waiting = threading.Event()
        threading.Thread(target=waiting.wait).start()  # as the monitor of a progress bar
        interval(0.0002)
        working = True
        def work():
            while working:
                time.sleep(0.001)
        threading.Thread(target=work).start()
        interval(0.005)
        working = False
        interval(0.0002)
        waiting.set()
        sampler.close()
        interval(0.005)
    """
    assert run(tmp_path, job, "python") == ["0.0002", "0.0002", "0.005", "0.0002", "0.005"]


def test_the_interval_stays_where_stacks_are_read_out_of_memory(tmp_path: Path) -> None:
    job = """
        time.sleep(2)  # a busy machine gives the sampler few of the 400 looks that are due
        print(sys.getswitchinterval())
        sampler.close()
        print(os.path.getsize(sys.argv[1] + "/lines.bin") > 64 + 10 * LINE.struct.size)
    """
    assert run(tmp_path, job) == ["0.005", "True"]


def test_an_interval_that_the_job_sets_itself_stays(tmp_path: Path) -> None:
    job = """
        time.sleep(0.1)
        sys.setswitchinterval(0.02)  # while stepscope's is set
        time.sleep(0.1)
        sampler.close()
        print(round(sys.getswitchinterval(), 6))
    """
    assert run(tmp_path, job, "python") == ["0.02"]


def test_an_interval_that_the_job_has_set_before_stays(tmp_path: Path) -> None:
    job = """
        sampler.close()
        sys.setswitchinterval(0.01)
        sampler = Sampler(state, Recorder(sys.argv[1] + "-later"), 200)
        sampler.start()
        time.sleep(0.1)
        print(round(sys.getswitchinterval(), 6))
        sampler.close()
        print(round(sys.getswitchinterval(), 6))
    """
    assert run(tmp_path, job, "python") == ["0.01", "0.01"]


@pytest.mark.alone
def test_a_callback_of_the_jobs_own_is_part_of_the_collection(tmp_path: Path) -> None:
    """It runs before stepscope's, while the collection is not known yet: its time must not be charged twice."""
    job = """
        import gc
        from stepscope.collect.garbage import Collector
        def slow(phase, info):
            if phase == "stop":
                time.sleep(0.2)
        gc.disable()
        gc.callbacks.append(slow)
        collector = Collector(state, sampler)
        collector.start()
        began = time.monotonic()
        time.sleep(0.1)
        before = time.monotonic()
        gc.collect()
        after = time.monotonic()
        time.sleep(0.1)
        ended = time.monotonic()
        gc.callbacks.remove(slow)
        collector.close()
        sampler.close()
        from pathlib import Path
        rows = list(LINE.struct.iter_unpack((Path(sys.argv[1]) / "lines.bin").read_bytes()[64:]))
        print(sum(row[2] for row in rows if row[5]) / 1e9, sum(row[2] for row in rows) / 1e9)
        print(after - before, ended - began)
    """
    collected, everything, collection, whole = map(float, run(tmp_path, job))
    assert 0.2 < collected < collection + 0.01
    assert everything == pytest.approx(whole, abs=0.1), "0.2 more if it were charged twice"


@pytest.mark.parametrize(
    "hooks",
    ["", pytest.param("python", marks=pytest.mark.skipif(not HARMLESS, reason="Python 3.11 does not survive it"))],
)
def test_a_stack_that_changes_among_collections_is_walked_unharmed(tmp_path: Path, hooks: str) -> None:
    """A collection started by the walk itself can end in a segmentation fault here, though not in every run."""
    job = """
        import gc, random
        sampler.close()
        sys.setswitchinterval(0.0001)  # the two threads take turns more often than in any job
        gc.callbacks.append(lambda phase, info: sum(range(200)))
        recorder = Recorder(sys.argv[1] + "-fast")
        sampler = Sampler(state, recorder, 3000)
        sampler.start()

        class Cycle:
            def __init__(self, depth):
                self.below, self.itself = [Cycle(depth - 1)] if depth else [], self

        def generated(depth):
            if depth:
                for number in generated(depth - 1):
                    yield number
            yield depth

        def deep(depth):
            try:
                if depth:
                    return [depth] + deep(depth - 1) + [len([1 for _ in generated(3)])]
                raise KeyError
            except KeyError:
                return []

        ends = time.monotonic() + float(sys.argv[2])
        while time.monotonic() < ends:
            deep(random.randrange(5, 150))
            Cycle(20)
            list(generated(10))
        sampler.close()
        print(gc.isenabled())
    """
    assert run(tmp_path, job, hooks) == ["True"]
