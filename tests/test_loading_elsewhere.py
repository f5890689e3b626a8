"""Spans of loaders that are not torch's own: torchdata's StatefulDataLoader, WebDataset; and of none at all."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.input_pipeline.loader_starts import loader_starts
from stepscope.collect.launch import launch
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run
from stepscope.run_format.options import RecordingOptions
from stepscope.storage import open_run

JOBS = Path(__file__).parent / "collect/jobs"
STATEFUL = (
    "map", "lasting", "iterable", "counted", "transforms", "single", "single-counted", "asked-first",
    "single-asked-first", "any-order", "break", "resumed", "resumed-lasting", "resumed-counted", "resumed-iterable",
    "single-resumed",
)  # fmt: skip
"""The ways in the order of the job: each makes a loader, those that resume, the last, two."""

STREAMED = ("workers", "lasting", "web-loader", "rebatched", "single", "staged")
BATCHES = 6  # of an epoch of 24 samples
IN_WORKER = {"start", "set up", "index wait", "fetch", "sample", "collate", "put", "serialize", "send", "end"}
IN_MAIN = {"start workers", "send index", "wait", "receive", "stop workers"}
stateful, streamed = (
    pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")
    for package in ("torchdata", "webdataset")
)


def recorded(folder: Path, job: str, *names: str) -> Run:
    """The run of a job that loads in these ways, in a folder of its own."""
    here = os.getcwd()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    try:
        launch(
            [sys.executable, str(JOBS / job), *names],
            str(folder / "run"),
            RecordingOptions(loader="all"),
        )
    finally:
        os.chdir(here)
    return open_run(folder / "run")


def printed(folder: Path, job: str, *names: str, watched: bool) -> subprocess.CompletedProcess[str]:
    """The job without the launcher, or with it."""
    command = [sys.executable, str(JOBS / job), *names]
    if watched:
        options = ["--quiet", "--trace", "none", "--lines", "none", "--loader", "all", "--out", str(folder / "run")]
        command = [sys.executable, "-m", "stepscope", "run", *options, "--", *command]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, cwd=folder)


Watched = tuple[subprocess.CompletedProcess[str], Path]


def watched_job(folder: Path, job: str, names: tuple[str, ...]) -> Watched:
    """What the recorded job printed, and its run."""
    return printed(folder, job, *names, watched=True), folder / "run"


def prints_the_same(folder: Path, job: str, names: tuple[str, ...], watched: subprocess.CompletedProcess[str]) -> None:
    plain = printed(folder, job, *names, watched=False)
    assert (plain.returncode, watched.returncode) == (0, 0), plain.stderr + watched.stderr
    assert watched.stdout == plain.stdout
    assert watched.stderr == plain.stderr


@pytest.fixture(scope="module")
def kept_job(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return watched_job(tmp_path_factory.mktemp("stateful"), "stateful.py", STATEFUL)


@pytest.fixture(scope="module")
def kept(kept_job: Watched) -> Run:
    return open_run(kept_job[1])


@pytest.fixture(scope="module")
def web_job(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return watched_job(tmp_path_factory.mktemp("web"), "webdata.py", STREAMED)


@pytest.fixture(scope="module")
def web(web_job: Watched) -> Run:
    return open_run(web_job[1])


def spans_of(run: Run, ways: tuple[str, ...], name: str) -> pl.DataFrame:
    return run.optional("loader_spans").filter(pl.col("loader") == ways.index(name))


def weights(spans: pl.DataFrame, stage: str) -> int:
    return int(spans.filter((pl.col("stage") == stage) & ~pl.col("failed"))["weight"].sum())


# -- torchdata -----------------------------------------------------------------------------------------------------


@stateful
@pytest.mark.slow
def test_batches_states_and_resumed_epochs_are_those_of_the_bare_job(tmp_path: Path, kept_job: Watched) -> None:
    prints_the_same(tmp_path, "stateful.py", STATEFUL, kept_job[0])


@stateful
@pytest.mark.slow
@pytest.mark.parametrize("name", ["broken", "deadly", "interrupted"])
def test_a_stateful_job_that_fails_fails_as_it_would(tmp_path: Path, name: str) -> None:
    plain, watched = (printed(tmp_path, "stateful.py", name, watched=which) for which in (False, True))
    assert watched.returncode == plain.returncode != 0
    assert "collect/dataloader" not in watched.stderr
    spans = open_run(tmp_path / "run").optional("loader_spans")
    assert "fetch" in spans["stage"].to_list()
    assert not (tmp_path / "run" / "notes.jsonl").exists()


@stateful
@pytest.mark.slow
@pytest.mark.parametrize("name", ["map", "lasting", "iterable", "counted", "asked-first"])
def test_every_batch_of_a_stateful_loader_is_accounted_for(kept: Run, name: str) -> None:
    spans = spans_of(kept, STATEFUL, name)
    worker, main = spans.drop_nulls("worker"), spans.filter(pl.col("worker").is_null())
    assert set(worker["stage"]) | {"end"} == IN_WORKER
    assert set(main["stage"]) | {"stop workers"} == IN_MAIN
    assert weights(spans, "wait") == weights(spans, "fetch") == 2 * BATCHES
    assert weights(spans, "sample") == 48
    batches = spans.filter((pl.col("stage") == "fetch") & ~pl.col("failed"))
    assert batches.select("iterator", "epoch", "batch").is_unique().all()
    assert spans["pid"].n_unique() == (3 if name == "lasting" else 5)
    lasting = name == "lasting"
    assert set(spans["epoch"]) == ({0, 1} if lasting else {0})
    assert kept.optional("skipped").is_empty()
    starts = loader_starts(kept).filter(pl.col("loader") == STATEFUL.index(name))
    assert starts.select("iterator", "worker").height == (2 if lasting else 4)
    assert starts["starting"].null_count() == starts["waited_start"].null_count() == 0


@stateful
@pytest.mark.slow
@pytest.mark.parametrize("name", ["single", "single-counted", "single-asked-first"])
def test_a_stateful_loader_without_workers(kept: Run, name: str) -> None:
    spans = spans_of(kept, STATEFUL, name)
    assert set(spans["stage"]) == {"fetch", "sample", "collate"}
    assert weights(spans, "fetch") == 2 * BATCHES
    assert weights(spans, "sample") == 48


@stateful
@pytest.mark.slow
def test_transforms_in_a_stateful_loader(kept: Run) -> None:
    called = spans_of(kept, STATEFUL, "transforms").filter(pl.col("stage") == "transform")
    names = {f"loading.{name}": 48 for name in ("Chain", "Decoded", "Scaled", "shifted")}
    assert dict(called.group_by("name").agg(pl.len()).iter_rows()) == names


@stateful
@pytest.mark.slow
def test_a_spawned_worker_of_a_stateful_loader(tmp_path: Path) -> None:
    run = recorded(tmp_path, "stateful.py", "spawn")
    spans = run.optional("loader_spans")
    assert set(spans["worker"].drop_nulls()) == {0, 1}
    assert weights(spans, "fetch") == 2 * BATCHES
    starts = loader_starts(run)
    assert (starts["starting_cpu"] > 0).all()
    assert (starts["starting"] > starts["setting_up"]).all()  # it imports torch
    assert (starts["waited_start"] <= starts["waited"]).all()


# -- WebDataset ----------------------------------------------------------------------------------------------------


@streamed
@pytest.mark.slow
def test_batches_of_web_pipelines_are_those_of_the_bare_job(tmp_path: Path, web_job: Watched) -> None:
    prints_the_same(tmp_path, "webdata.py", STREAMED, web_job[0])


@streamed
@pytest.mark.slow
@pytest.mark.parametrize("name", ["workers", "lasting", "web-loader", "rebatched", "single"])
def test_stages_of_a_web_pipeline_are_timed(web: Run, name: str) -> None:
    """Its generators took the functions in the fetch that started them."""
    spans = spans_of(web, STREAMED, name)
    assert weights(spans, "fetch") == weights(spans, "sample") == (4 if name == "rebatched" else 2) * BATCHES
    called = spans.filter(pl.col("stage") == "transform").group_by("name").agg(pl.len())
    times = {name.rpartition(".")[2]: count for name, count in called.iter_rows()}
    expected = {"to_tensor": 48, "Noisy": 48, "halved": 48, "Decoder": 48}
    assert {key: times.get(key) for key in expected} == expected
    assert times.get("Scaled") == (None if name == "single" else 48)
    assert "FilterFunction" not in times  # which only makes a generator


@streamed
@pytest.mark.slow
def test_generators_of_the_users_own(web: Run) -> None:
    spans = spans_of(web, STREAMED, "staged")
    called = spans.filter(pl.col("stage") == "transform").group_by("name").agg(pl.len())
    assert dict(called.iter_rows()) == {"__main__.Noisy": 48, "__main__.halved": 48}


# -- none ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_no_loader_made_is_not_observed(tmp_path: Path) -> None:
    run = recorded(tmp_path, "loading.py", "no-loader")
    assert run.optional("steps").height == 2 * BATCHES
    assert run.optional("steps")["data_wait"].null_count() == 2 * BATCHES
    group = PluginGroup("analyses", Analysis)
    for name in (name for name in group.names() if name.startswith("loader_") or name == "stall_pattern"):
        with pytest.raises(MissingData):
            group.get(name)(run)
