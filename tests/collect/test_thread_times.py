"""CPU times of Python threads beside training: read in a process, and of a recorded job."""

import json
import threading
import time
from pathlib import Path

import pytest

from stepscope.collect.line_sampler.thread_times import ThreadTimes
from stepscope.core.importing import Sink
from stepscope.importers.run_dir.clocks import Clock
from stepscope.importers.run_dir.thread_times import add_thread_times
from stepscope.run_format.files import THREADS

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no /proc with times of threads")


def burn(until: float) -> None:
    while time.monotonic() < until:
        pass


def test_a_busy_thread_is_told_beside_the_training_thread() -> None:
    thread = threading.Thread(target=burn, args=(time.monotonic() + 1.0,), name="burner")
    times = ThreadTimes(threading.get_ident(), lambda ident: 7)
    thread.start()
    assert list(times.rows()) == []  # at first sight there is nothing to compare with
    time.sleep(0.4)
    rows = {row["thread"]: row for row in times.rows()}
    thread.join()
    assert set(rows) == {"MainThread", "burner"}
    burner, own = rows["burner"], rows["MainThread"]
    assert burner["cpu"] > 0.2 * burner["span"] > 0
    assert (burner["training"], burner["stack"]) == (False, 7)
    assert (own["training"], own["stack"]) == (True, None)
    assert own["cpu"] < 0.3 * own["span"]


def test_a_long_job_tells_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.collect.line_sampler.thread_times.MOST_ROWS", 2)
    thread = threading.Thread(target=burn, args=(time.monotonic() + 1.0,))
    times = ThreadTimes(threading.get_ident(), lambda ident: None)
    thread.start()
    told = []
    for _ in range(5):
        told.append(len(list(times.rows())))
        time.sleep(0.1)
    thread.join()
    assert told == [0, 2, 0, 2, 0]


def test_what_only_looks_like_a_thread_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "_active", {1: object(), 2: object()})
    times = ThreadTimes(1, lambda ident: None)
    assert (list(times.rows()), list(times.rows())) == ([], [])


def test_threads_that_rest_are_not_told() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    times = ThreadTimes(threading.get_ident(), lambda ident: None)
    first = list(times.rows())
    time.sleep(0.1)
    assert (first, list(times.rows())) == ([], [])
    done.set()
    thread.join()


def test_rows_become_a_table_with_the_lines_of_their_stacks(tmp_path: Path) -> None:
    figures = {"thread": "burner", "training": False, "time": 5, "span": 10, "cpu": 4, "ready": 1}
    rows = ({**figures, "stack": 3}, {**figures, "thread": "MainThread", "training": True, "stack": None}, {"cpu": 1})
    (tmp_path / THREADS).write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = {"id": 3, "frames": [["/me/train.py", 24, "count"]], "text": "levels[value] += 1", "call": None}
    (tmp_path / "frames.jsonl").write_text(json.dumps(frame) + "\n")
    sink, left_out = Sink(), []
    clock = Clock(0, "7", 100)
    add_thread_times(tmp_path, clock, lambda reason, count: left_out.append((reason, count)), sink)
    table = sink.run("run").optional("thread_times")
    assert table.select("thread", "time", "cpu", "file", "line", "text").rows() == [
        ("burner", 105, 4, "/me/train.py", 24, "levels[value] += 1"), ("MainThread", 105, 4, None, None, None)
    ]  # fmt: skip
    assert ("CPU time of a thread without its figures: left out", 1) in left_out
