"""Ranks opened on a cluster of Dask: a real scheduler and real workers, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread

import pytest
from distributed import Client
from polars.testing import assert_frame_equal

from stepscope.analyses.device.device_time import device_time
from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.render.json import dumps, report_document
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
from stepscope.storage.cluster import dask

from ..command import stepscope

JOBS = Path(__file__).parent / "jobs"
PATHS = os.pathsep.join(filter(None, [str(JOBS), os.environ.get("PYTHONPATH")]))  # of the package that is tested
STARTED = 120  # seconds in which workers are there, on a busy machine too
Until = Callable[[Callable[[], object]], None]
pytestmark = [
    pytest.mark.slow,
    # Sockets that the client of Dask is still closing when a test ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]


def started(*words: str, **variables: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": PATHS, "DASK_DISTRIBUTED__DASHBOARD__LINK": "", **variables}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


@contextmanager
def a_scheduler(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address and process of a scheduler that gives a rank up with the first worker that it kills."""
    about = folder / "scheduler.json"
    words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(about))
    process = started("dask_scheduler", *words, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    try:
        while not about.exists() or not about.read_text().rstrip().endswith("}"):  # it is written while we look
            assert process.poll() is None
            time.sleep(0.1)
        yield json.loads(about.read_text())["address"], process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def two_workers(address: str, folder: Path) -> Iterator[None]:
    words = ("--nworkers", "2", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder / "dask"))
    process = started("dask_worker", address, *words)
    try:
        with Client(address, timeout=STARTED, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(2, timeout=STARTED)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two workers, which are started again when they die."""
    folder = tmp_path_factory.mktemp("dask")
    with a_scheduler(folder) as (address, _), two_workers(address, folder):
        yield address


def document(run: Run) -> str:
    return dumps(report_document(assemble(run)))


def test_a_report_made_on_a_cluster_is_the_same(four_ranks: Path, cluster: str) -> None:
    expected = document(open_run(four_ranks))
    assert document(open_run(four_ranks, workers=dask(cluster), first=assemble)) == expected


def test_a_run_directory_on_a_cluster(two_runs: tuple[Path, Path], cluster: str) -> None:
    expected = document(open_run(two_runs))
    assert document(open_run(two_runs, workers=dask(cluster), first=assemble)) == expected


def test_a_worker_that_dies_changes_nothing(
    four_ranks: Path, tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(JOBS))
    victims = import_module("victims")
    expected = device_time(open_run(four_ranks))
    run = open_run(four_ranks, workers=dask(cluster), first=partial(victims.once, tmp_path, 2))
    assert (tmp_path / "killed").exists()
    assert_frame_equal(device_time(run), expected)


def test_a_scheduler_that_dies_is_said(
    four_ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    monkeypatch.syspath_prepend(str(JOBS))
    victims = import_module("victims")
    names = tmp_path / "pids"
    names.mkdir()
    with a_scheduler(tmp_path) as (address, process), two_workers(address, tmp_path):

        def kill() -> None:
            until(lambda: list(names.iterdir()))
            process.kill()

        Thread(target=kill, daemon=True).start()
        with pytest.raises(BadInput, match="the connection to the scheduler was lost"):
            open_run(four_ranks, workers=dask(address), first=partial(victims.slowly, names))


def test_the_command_takes_the_address(four_ranks: Path, cluster: str) -> None:
    words = ("show", "timer", four_ranks, "--format", "csv")
    here, there = (stepscope(*words, *more) for more in ((), ("--dask", cluster)))
    assert (there.returncode, there.stderr) == (0, "")
    assert there.stdout == here.stdout


def test_a_scheduler_without_workers_is_said(four_ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.storage.cluster.PATIENCE", 3)
    with (
        a_scheduler(tmp_path) as (address, _),
        pytest.raises(BadInput, match="the scheduler has no worker") as caught,
    ):
        open_run(four_ranks, workers=dask(address))
    assert "dask worker" in caught.value.next_step


def test_an_address_where_nobody_answers(four_ranks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscope.storage.cluster.PATIENCE", 1)
    with pytest.raises(BadInput, match="no scheduler of Dask answers there") as caught:
        open_run(four_ranks, workers=dask("tcp://127.0.0.1:9"))
    assert "dask scheduler" in caught.value.next_step


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://host", "http://host:80/x"])
def test_what_is_no_address(four_ranks: Path, address: str) -> None:
    with pytest.raises(BadInput, match="no address of a scheduler"):
        open_run(four_ranks, workers=dask(address))


def test_without_the_package_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(BadInput, match="distributed is not installed") as caught:
        dask("tcp://127.0.0.1:8786")
    assert caught.value.next_step == "pip install 'stepscope[cluster]'"
