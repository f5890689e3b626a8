"""The sampler and Python's switch interval: short pure Python is seen, and the job keeps its own interval."""

import subprocess
import sys
import textwrap
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"

START = """
import sys, threading, time
from stepscope.collect.clock import State
from stepscope.collect.lines import SAMPLE, Sampler
from stepscope.collect.recorder import Recorder
state, recorder = State(), Recorder(sys.argv[1])
state.thread = threading.get_ident()
sampler = Sampler(state, recorder, 200)
sampler.start()
"""


def run(tmp_path: Path, script: str) -> list[str]:
    path = tmp_path / "job.py"
    path.write_text(START + textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "rank")],
        capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    return done.stdout.split()


def test_two_milliseconds_of_python_between_calls_that_release_the_lock_are_seen(tmp_path: Path) -> None:
    job = """
        import json
        from pathlib import Path
        python = 0
        ends = time.monotonic() + 2
        while time.monotonic() < ends:
            began = time.perf_counter_ns()
            while time.perf_counter_ns() - began < 2_000_000:
                pass
            python += time.perf_counter_ns() - began
            time.sleep(0.002)
        sampler.close()
        rank = Path(sys.argv[1])
        stacks = {row["id"]: row["text"] for row in map(json.loads, (rank / "frames.jsonl").read_text().splitlines())}
        rows = list(SAMPLE.iter_unpack((rank / "lines.bin").read_bytes()[64:]))
        sleep = sum(row[2] for row in rows if "sleep" in stacks[row[3]])
        print(1 - sleep / sum(row[2] for row in rows), python / 2e9)
    """
    sampled, true = map(float, run(tmp_path, job))
    assert abs(sampled - true) < 0.25, "with the interval of 5 ms the sampler sees nothing but the call that sleeps"


def test_the_interval_is_the_jobs_own_with_another_thread_and_at_the_end(tmp_path: Path) -> None:
    job = """
        time.sleep(0.1)
        print(sys.getswitchinterval())
        done = threading.Event()
        threading.Thread(target=done.wait).start()
        time.sleep(0.1)
        print(sys.getswitchinterval())
        done.set()
        time.sleep(0.1)
        print(sys.getswitchinterval())
        sampler.close()
        print(sys.getswitchinterval())
    """
    assert run(tmp_path, job) == ["0.0005", "0.005", "0.0005", "0.005"]


def test_an_interval_that_the_job_sets_itself_stays(tmp_path: Path) -> None:
    job = """
        time.sleep(0.1)
        sys.setswitchinterval(0.02)
        time.sleep(0.1)
        sampler.close()
        print(sys.getswitchinterval())
    """
    assert run(tmp_path, job) == ["0.02"]
