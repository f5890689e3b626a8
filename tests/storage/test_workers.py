"""Processes that open ranks: real ones, that are really killed."""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.device.device_time import device_time
from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.render.json import dumps, report_document
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
from stepscope.storage.processes import processes
from stepscope.storage.workers import Workers, in_this_process, using

from ..command import command, printed

pytestmark = pytest.mark.slow

TWO = processes(2, cores=2, small=0)
A_WHILE = 60  # seconds that victims.slowly takes
JOBS = Path(__file__).parent / "jobs"
Until = Callable[[Callable[[], object]], None]
RanksIn = Callable[..., Path]


@pytest.fixture
def victims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Functions that workers can import too: they get the path of this process."""
    monkeypatch.syspath_prepend(str(JOBS))
    return importlib.import_module("victims")


def test_the_work_is_shared_and_so_are_the_cores(four_ranks: Path, tmp_path: Path, victims: ModuleType) -> None:
    workers = processes(2, cores=6, small=0)
    run = open_run(four_ranks, workers=workers, first=partial(victims.in_which_process, tmp_path, 2))
    assert run.optional("processes")["rank"].to_list() == [0, 1, 2, 3]
    notes = list(tmp_path.glob("? *"))
    assert sorted(note.name.split()[0] for note in notes) == ["0", "1", "2", "3"]
    assert len({note.name.split()[1] for note in notes} - {str(os.getpid())}) == 2
    assert {note.read_text() for note in notes} == {"3"}
    assert "POLARS_MAX_THREADS" not in os.environ


@pytest.mark.parametrize("workers", [processes(1, cores=2, small=0), processes(2, cores=2)])
def test_little_work_and_one_worker_need_no_other_process(
    four_ranks: Path, tmp_path: Path, victims: ModuleType, workers: Workers
) -> None:
    open_run(four_ranks, workers=workers, first=partial(victims.in_which_process, tmp_path, 1))
    assert {note.name.split()[1] for note in tmp_path.glob("? *")} == {str(os.getpid())}


def test_a_worker_killed_in_the_middle_changes_nothing(four_ranks: Path, tmp_path: Path, victims: ModuleType) -> None:
    expected = device_time(open_run(four_ranks, workers=in_this_process(), first=device_time))
    run = open_run(four_ranks, workers=TWO, first=partial(victims.once, tmp_path, 2))
    assert (tmp_path / "killed").exists()
    assert_frame_equal(device_time(run), expected)


def test_a_worker_that_dies_while_another_is_started(
    four_ranks: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool closes the pipes of all when one dies, but not before all are started: no process misses its own."""
    expected = device_time(open_run(four_ranks, workers=in_this_process(), first=device_time))
    start: Any = vars(ProcessPoolExecutor)["_spawn_process"]
    started: list[Any] = []

    def start_late(pool: Any) -> None:
        started.append(pool)
        if len(started) == 2:
            (first,) = pool._processes.values()
            first.kill()
            first.join()
            time.sleep(0.2)  # for a thread that closes the pipes, if there were one
            assert not pool._call_queue._reader.closed
        start(pool)

    monkeypatch.setattr(ProcessPoolExecutor, "_spawn_process", start_late)
    assert_frame_equal(device_time(open_run(four_ranks, workers=TWO, first=device_time)), expected)
    assert len(started) > 2
    assert capfd.readouterr().err == ""


def test_a_rank_that_kills_every_worker_is_left_out_and_said(four_ranks: Path, victims: ModuleType) -> None:
    run = open_run(four_ranks, workers=TWO, first=partial(victims.always, 1))
    assert run.optional("processes")["rank"].to_list() == [0, 2, 3]
    skipped = run.optional("skipped").select("source", "reason").rows()
    why = "3 worker processes died while they read it (out of memory?): not read"
    assert (str(four_ranks / "worker1.json"), why) in skipped


def test_when_every_worker_dies_nothing_is_opened(ranks_in: RanksIn, victims: ModuleType) -> None:
    folder = ranks_in("ranks", **{f"rank_{rank}": rank for rank in range(5)})
    with pytest.raises(BadInput, match="every process that was started died") as caught:
        open_run(folder, workers=TWO, first=partial(victims.always, None))
    assert "--jobs 1" in caught.value.next_step


def test_a_rank_that_cannot_be_opened_again_is_an_error(four_ranks: Path, victims: ModuleType) -> None:
    run = open_run(four_ranks, workers=TWO)
    with pytest.raises(BadInput, match=r"worker1\.json: 3 worker processes died"):
        run.per_rank(partial(victims.always, 1), lambda results: results[0])


def test_a_mistake_in_a_plugin_keeps_its_traceback(four_ranks: Path, victims: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError, match="a mistake in a plugin"):
        open_run(four_ranks, workers=TWO, first=victims.wrongly)


def test_any_executor_will_do(four_ranks: Path) -> None:
    expected = document(open_run(four_ranks))
    with ThreadPoolExecutor(3) as executor:
        assert document(open_run(four_ranks, workers=using(executor), first=assemble)) == expected


def test_an_interruption_stops_all_workers_at_once(
    four_ranks: Path, tmp_path: Path, victims: ModuleType, until: Until
) -> None:
    names = tmp_path / "pids"
    names.mkdir()

    began: list[float] = []

    def interrupt() -> None:
        until(lambda: len(list(names.iterdir())) == 2)
        began.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        open_run(four_ranks, workers=TWO, first=partial(victims.slowly, names))
    assert not any(map(is_alive, pids_in(names)))
    assert time.monotonic() - began[0] < A_WHILE / 2


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_who_started_them(four_ranks: Path, tmp_path: Path, until: Until, how: signal.Signals) -> None:
    """Ctrl-C reaches the whole group of processes; the other signals the first process only."""
    names = tmp_path / "pids"
    names.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, four_ranks, names], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    until(lambda: len(list(names.iterdir())) == 2)
    if how is signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    _, said = process.communicate(timeout=A_WHILE / 2)
    assert process.returncode
    # of the process itself, which may have been interrupted within another exception: workers say nothing
    assert said.count("\nKeyboardInterrupt") == (how is signal.SIGINT)
    until(lambda: not any(map(is_alive, pids_in(names))))


def test_a_worker_that_is_killed_from_outside(ranks_in: RanksIn) -> None:
    """A command over many ranks, whose workers are killed twice meanwhile, says what it says without that."""
    folder = ranks_in("many", **{f"rank_{rank}": rank for rank in range(16)})
    words = ("show", "device-time", folder, "--format", "json", "--jobs")
    expected = printed(*words, "1")
    process = subprocess.Popen(command(*words, "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    killed = [pid for _ in range(2) if (pid := kill_a_worker_of(process))]
    said, errors = process.communicate(timeout=120)
    assert killed and (process.returncode, errors) == (0, "")
    assert json.loads(said) == json.loads(expected)


SCRIPT = f"""
import sys
from functools import partial
from pathlib import Path
sys.path.insert(0, {str(JOBS)!r})
import victims
from stepscope.storage import open_run
from stepscope.storage.processes import processes
if __name__ == "__main__":
    open_run(sys.argv[1], workers=processes(2, cores=2, small=0), first=partial(victims.slowly, Path(sys.argv[2])))
"""


def document(run: Run) -> str:
    return dumps(report_document(assemble(run)))


def pids_in(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir()]


def kill_a_worker_of(process: subprocess.Popen[str]) -> int | None:
    """Kill the first worker that is there, and see it end; None if the command ends before."""
    while process.poll() is None:
        for pid in workers_of(process.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
            while is_alive(pid):
                time.sleep(0.01)
            return pid
        time.sleep(0.01)
    return None


def workers_of(pid: int) -> list[int]:
    """Processes that a command started to open ranks."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in found if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]
    except FileNotFoundError:
        return []


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
