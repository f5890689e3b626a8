"""What the rules about the input pipeline read, from real loaders: scenarios as they are and fixed, a few steps each.

How long something takes is not compared: the machine may do other things meanwhile.
"""

import sys
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.input_pipeline.lib.lock_waits import waits_for_locks
from stepscope.collect.launch import launch
from stepscope.core.run import Run
from stepscope.models.fetch_parts import calls
from stepscope.models.pipeline import _further, fetches
from stepscope.report.diagnose import RULES
from stepscope.rules.input_pipeline.crop_after_transform import _beginnings, _left, _precedes
from stepscope.rules.input_pipeline.python_tokenizing import NAMED
from stepscope.rules.input_pipeline.slow_worker import _fetches, _slowest
from stepscope.run_format.options import RecordingOptions
from stepscope.storage import open_run

SCENARIOS = Path(__file__).parents[3] / "scenarios"

pytestmark = pytest.mark.slow


def recorded(folder: Path, name: str, *options: str, steps: int = 12, lines: float = 0) -> Run:
    command = [sys.executable, str(SCENARIOS / f"{name}.py"), "--steps", str(steps), *options]
    launch(command, str(folder), RecordingOptions(loader="all", loader_lines_hz=lines))
    return open_run(folder)


@pytest.mark.parametrize("fixed", [False, True])
def test_sizes_and_order_of_transforms(tmp_path: Path, fixed: bool) -> None:
    run = recorded(tmp_path / "run", "input_crop_last", *(["--fixed"] if fixed else []), steps=4)
    left, begins = _left(run, 0), _beginnings(run, 0)
    assert left["__main__.Convert"] == 1
    assert left["__main__.Crop"] == pytest.approx((96 / 384) ** 2)
    assert _precedes(begins, "__main__.Convert", "__main__.Crop") is not fixed


def test_the_file_that_is_read_again(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "input_repeated_opening")
    reads = run.optional("loader_spans").filter(pl.col("stage") == "read")
    assert reads.filter(pl.col("name") == "numpy.load").height >= 100
    assert reads["read_file"].n_unique() == 1
    spans = run.optional("loader_spans").select("pid", "epoch", "batch", "stage", "cpu", "process_cpu")
    fetches, collates = (spans.filter(pl.col("stage") == stage) for stage in ("fetch", "collate"))
    both = collates.select("pid", "epoch", "batch", "process_cpu").join(
        fetches.select("pid", "epoch", "batch", "cpu"), on=("pid", "epoch", "batch")
    )
    assert both.height >= 3
    assert (both["process_cpu"] >= both["cpu"]).all(), "all threads of a process take what one of them does"


def test_workers_at_a_lock(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "input_shared_lock", steps=30, lines=100)
    assert waits_for_locks(run, 0)


def test_the_worker_that_is_slower(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "input_slow_worker", steps=24)
    slow = _slowest(_fetches(run, 0), 3)
    assert slow is not None
    assert slow.worker == 0
    assert slow.wall - slow.cpu > slow.others_wall - slow.others_cpu


@pytest.mark.parametrize("fixed", [False, True])
def test_threads_of_a_library_in_the_workers(tmp_path: Path, fixed: bool) -> None:
    run = recorded(tmp_path / "run", "input_threaded_workers", *(["--fixed"] if fixed else []), steps=16)
    spans = run.optional("loader_spans").filter(pl.col("stage") == "serialize")
    threads = spans.drop_nulls("count")
    assert threads.height == 2, "each worker counts them once"
    assert (threads["count"] >= 8).all() is not fixed
    assert (_further(run.optional("loader_spans")) > 0) is not fixed


@pytest.mark.parametrize("fixed", [False, True])
def test_tokens_that_are_made_again_in_each_sample(tmp_path: Path, fixed: bool) -> None:
    run = recorded(tmp_path / "run", "input_python_tokenizing", *(["--fixed"] if fixed else []), steps=8)
    named = [call for call in calls(run, 0, fetches(run, 0)) if NAMED.search(call.name)]
    assert [call.name for call in named] == ([] if fixed else ["__main__.WordPieces"])
    assert fixed or named[0].cpu > 0.3


@pytest.mark.parametrize("fixed", [False, True])
def test_workers_that_give_all_samples_each(tmp_path: Path, fixed: bool) -> None:
    run = recorded(tmp_path / "run", "input_unsharded_stream", *(["--fixed"] if fixed else []))
    found = [finding.where[0].text for finding in RULES.get("unsharded-iterable").check(run)]
    assert found == ([] if fixed else ["for index in range(len(self.pictures)):  # planted"])
    assert run.optional("steps").height == (12 if fixed else 24)
