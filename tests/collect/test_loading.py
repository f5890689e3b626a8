"""Spans of the input pipeline from real DataLoaders: the job is as it was, and every batch is accounted for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.collect.launch import launch
from stepscope.core.run import Run
from stepscope.run_format.options import RecordingOptions
from stepscope.storage import open_run

JOB = str(Path(__file__).parent / "jobs" / "loading.py")
QUICK = (
    "map", "lasting", "iterable", "batched", "nested", "init", "single", "single-iterable", "any-order", "no-batches",
    "validation", "break", "transforms", "single-transforms",
)  # fmt: skip
WITHOUT_LOADER = """
import torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(30):
    (weight - 1).square().sum().backward()
    optimizer.step()
"""
BATCHES = 6  # of an epoch of 24 samples
IN_WORKER = {"start", "set up", "index wait", "fetch", "sample", "collate", "put", "serialize", "send", "end"}
AROUND = ("start workers", "stop workers")
IN_MAIN = {"send index", "wait", "receive", *AROUND}


def recorded(folder: Path, *names: str, **options: Any) -> Run:
    """The run of a job that loads in these ways."""
    launch([sys.executable, JOB, *names], str(folder), RecordingOptions(**{"loader": "all", **options}))
    return open_run(folder)


def bare(*names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, JOB, *names], capture_output=True, text=True, check=False)


def under_stepscope(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "stepscope",
        "run",
        "--quiet",
        "--trace",
        "none",
        "--lines",
        "none",
        "--loader",
        "all",
    ]
    command += ["--out", str(folder), "--", sys.executable, JOB, *names]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)


Watched = tuple[subprocess.CompletedProcess[str], Path]


@pytest.fixture(scope="module")
def quick_job(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """What the recorded job printed, and its run."""
    folder = tmp_path_factory.mktemp("loading") / "run"
    return under_stepscope(folder, *QUICK), folder


@pytest.fixture(scope="module")
def quick(quick_job: Watched) -> Run:
    return open_run(quick_job[1])


def spans_of(run: Run, name: str, at: int = 0) -> pl.DataFrame:
    """The spans of one way: every way makes one loader, but `validation`, which makes two (`at`: of those before)."""
    return run.optional("loader_spans").filter(pl.col("loader") == QUICK.index(name) + at)


def weights(spans: pl.DataFrame, stage: str) -> int:
    return int(spans.filter(pl.col("stage") == stage)["weight"].sum())


@pytest.mark.slow
def test_batches_order_and_random_state_are_those_of_the_bare_job(quick_job: Watched) -> None:
    plain, watched = bare(*QUICK), quick_job[0]
    assert (plain.returncode, watched.returncode) == (0, 0)
    assert watched.stdout == plain.stdout
    assert watched.stderr == plain.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["broken", "single-broken", "deadly"])
def test_a_job_that_fails_fails_as_it_would_and_leaves_spans(tmp_path: Path, name: str) -> None:
    plain, watched = bare(name), under_stepscope(tmp_path / "run", name)
    assert watched.returncode == plain.returncode == 1
    assert "collect/dataloader" not in watched.stderr
    assert len(watched.stderr.splitlines()) >= len(plain.stderr.splitlines()) > 0
    spans = open_run(tmp_path / "run").optional("loader_spans")
    assert "fetch" in spans["stage"].to_list()
    assert spans.filter(pl.col("failed"))["stage"].to_list() == ([] if name == "deadly" else ["fetch"])
    assert not (tmp_path / "run" / "notes.jsonl").exists()


@pytest.mark.slow
def test_an_interrupted_job_leaves_spans(tmp_path: Path) -> None:
    plain, watched = bare("interrupted"), under_stepscope(tmp_path / "run", "interrupted")
    assert watched.returncode == plain.returncode != 0
    assert "KeyboardInterrupt" in watched.stderr
    assert "collect/dataloader" not in watched.stderr
    assert "fetch" in open_run(tmp_path / "run").optional("loader_spans")["stage"].to_list()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_every_start_method(tmp_path: Path, method: str) -> None:
    run = recorded(tmp_path / "run", method)
    spans = run.optional("loader_spans")
    assert set(spans["worker"].drop_nulls()) == {0, 1}
    assert set(spans.drop_nulls("worker")["stage"]) == IN_WORKER
    assert run.optional("skipped").is_empty()


@pytest.mark.slow
def test_every_batch_of_a_map_style_loader_is_accounted_for(quick: Run) -> None:
    spans = spans_of(quick, "map")
    worker, main = spans.drop_nulls("worker"), spans.filter(pl.col("worker").is_null())
    assert (set(worker["stage"]), set(main["stage"])) == (IN_WORKER, IN_MAIN)
    assert weights(spans, "fetch") == 2 * BATCHES
    assert weights(spans, "wait") == 2 * BATCHES
    samples = spans.filter(pl.col("stage") == "sample")
    assert sorted(samples["sample"]) == sorted(2 * [*range(24)])
    assert set(samples["name"]) == {"__main__.Rows"}
    assert samples["file"].unique().to_list() == [JOB]
    assert (samples["end"] - samples["start"]).min() > 1_900_000  # type: ignore[operator]
    assert set(spans.filter(pl.col("stage") == "collate")["name"]) == {
        "torch.utils.data._utils.collate.default_collate"
    }
    assert quick.optional("skipped").is_empty()


@pytest.mark.slow
def test_parts_lie_inside_their_whole_and_messages_after_their_cause(quick: Run) -> None:
    spans = spans_of(quick, "map").select("iterator", "epoch", "batch", "stage", "start", "end", "cpu")
    fetch = spans.filter(pl.col("stage") == "fetch")
    at = ("iterator", "epoch", "batch")
    parts = spans.filter(pl.col("stage").is_in(["sample", "collate"])).join(fetch, on=at, suffix="_fetch")
    assert (
        parts.select((pl.col("start") >= pl.col("start_fetch")) & (pl.col("end") <= pl.col("end_fetch")))
        .to_series()
        .all()
    )
    assert (fetch["cpu"] <= fetch["end"] - fetch["start"] + 50_000).all()
    order = spans.filter(~pl.col("stage").is_in(["sample", "start", "set up", "end", *AROUND])).pivot(
        "stage", index=list(at), values=["start", "end"]
    )
    assert (order["start_send index"] <= order["end_index wait"]).all()
    assert (order["end_index wait"] <= order["start_fetch"]).all()
    assert (order["end_fetch"] <= order["start_serialize"]).all()
    assert (order["end_serialize"] <= order["start_send"]).all()
    assert (order["start_send"] <= order["start_receive"]).all()
    assert (order["end_receive"] <= order["end_wait"]).all()


@pytest.mark.slow
def test_workers_that_last_count_their_epochs(quick: Run) -> None:
    spans = spans_of(quick, "lasting")
    assert spans["pid"].n_unique() == 3
    batches = spans.filter(pl.col("stage") == "fetch").select("epoch", "batch").sort("epoch", "batch")
    assert batches.rows() == [(epoch, batch) for epoch in range(2) for batch in range(BATCHES)]


@pytest.mark.slow
def test_samples_are_named_after_the_data_set_that_made_them(quick: Run) -> None:
    nested = spans_of(quick, "nested").filter(pl.col("stage") == "sample").select("name", "sample").unique()
    assert sorted(nested.rows()) == [
        *(("__main__.Others", index) for index in range(4)), *(("__main__.Rows", index) for index in range(20, 24)),
    ]  # fmt: skip
    batched = spans_of(quick, "batched").filter(pl.col("stage") == "sample")
    assert batched.select("count", "sample").unique().rows() == [(4, None)]
    streamed = spans_of(quick, "iterable").filter(pl.col("stage") == "sample")
    assert set(streamed["name"]) == {"__main__.Stream"}
    assert weights(streamed, "sample") == 48


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "samples", "modules"), [("transforms", 48, ("Scaled",)), ("single-transforms", 16, ())]
)
def test_transforms_and_readers_inside_the_samples(
    quick: Run, name: str, samples: int, modules: tuple[str, ...]
) -> None:
    """Modules of torch are timed in workers only."""
    spans = spans_of(quick, name, at=1)
    called = spans.filter(pl.col("stage").is_in(["transform", "read", "label"])).group_by("stage", "name").agg(pl.len())
    assert {row[:2]: row[2] for row in called.iter_rows()} == {
        **{("transform", f"__main__.{one}"): samples for one in ("Chain", "Decoded", *modules, "shifted")},
        ("read", "numpy.load"): samples,
        ("label", "augment"): samples,
    }
    assert set(spans.filter(pl.col("stage") == "transform")["file"]) == {JOB}
    label = spans.filter(pl.col("stage") == "label").select("file", "line").unique().row(0)
    assert Path(label[0]).read_text().splitlines()[label[1] - 1].strip().startswith("with torch.profiler.record_")
    inner = spans.filter(pl.col("name") == "numpy.load")
    outer = spans.filter(pl.col("name") == "__main__.Decoded")
    assert (inner.sort("pid", "start")["start"] >= outer.sort("pid", "start")["start"]).all()
    assert weights(spans, "sample") == samples


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inline", "inline-spawn"])
def test_the_slow_line_of_a_long_getitem_is_named(tmp_path: Path, name: str) -> None:
    run = recorded(tmp_path / "run", name, loader_lines_hz=100)
    first = loader_lines(run).row(0, named=True)
    assert (first["file"], first["function"], first["loader"]) == (JOB, "__getitem__", 0)
    assert "the slow line" in first["text"]
    assert first["share_low"] > 0.5
    samples = run.optional("worker_stacks").filter(pl.col("file") == JOB)
    assert set(samples["worker"]) == {0, 1}
    assert {frames[0].split()[-1] for frames in samples["frames"]} == {"__getitem__"}  # nothing above the fetch
    busy = run.optional("loader_spans").filter(pl.col("stage") == "fetch")
    in_fetch = int(((busy["end"] - busy["start"]) * busy["weight"]).sum())
    assert 0.6 * in_fetch < int(run.optional("worker_stacks")["weight"].sum()) < 1.4 * in_fetch
    assert not (Path(run.path) / "notes.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["single", "single-iterable"])
def test_the_main_process_makes_its_own_batches(quick: Run, name: str) -> None:
    spans = spans_of(quick, name)
    assert set(spans["stage"]) == {"fetch", "sample", "collate"}
    assert spans["worker"].null_count() == spans.height
    assert weights(spans.filter(~pl.col("failed")), "fetch") == 2 * BATCHES
    assert weights(spans, "sample") == 48


@pytest.mark.slow
def test_training_and_validation_are_apart(quick: Run) -> None:
    spans, at = quick.optional("loader_spans"), QUICK.index("validation")
    names = spans.filter(pl.col("stage") == "sample").group_by("loader").agg(pl.col("name").unique())
    found = dict(names.rows())
    assert (found[at], found[at + 1]) == (["__main__.Rows"], ["__main__.Others"])
    loaders = quick.optional("loaders")
    assert loaders.filter(pl.col("loader").is_in([at, at + 1])).sort("loader")["train"].to_list() == [True, False]


@pytest.mark.slow
def test_by_default_loading_is_recorded_and_a_job_without_a_loader_leaves_no_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(WITHOUT_LOADER)
    for name, words in (("single", [JOB, "single"]), ("none", [str(tmp_path / "loop.py")])):
        command = [sys.executable, "-m", "stepscope", "run", "--quiet", "--out", str(tmp_path / name), "--"]
        subprocess.run([*command, sys.executable, *words], check=True, env=os.environ)
        assert not (tmp_path / name / "notes.jsonl").exists()
    spans = open_run(tmp_path / "single").optional("loader_spans")
    assert spans.filter(pl.col("stage") == "fetch").height > 0
    assert open_run(tmp_path / "none").optional("steps").height > 0
    assert not (tmp_path / "none" / "loading").exists()


@pytest.mark.slow
def test_the_recorder_can_be_left_out(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", "single", loader="off")
    assert run.optional("loader_spans").is_empty()
    assert run.optional("steps").height == 2 * BATCHES


@pytest.mark.slow
def test_side_tables_are_json_lines_and_no_note_was_left(quick: Run) -> None:
    folder = Path(quick.path)
    tables = sorted((folder / "loading").glob("*.jsonl"))
    assert {json.loads(table.read_text().splitlines()[0])["kind"] for table in tables} == {"main", "worker"}
    assert not (folder / "notes.jsonl").exists()
