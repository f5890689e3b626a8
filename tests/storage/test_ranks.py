"""Many ranks: opened apart, they are the run that they are together."""

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import stepscope.storage.ranks
from stepscope.analyses.device.device_time import device_time
from stepscope.analyses.steps.steps import steps
from stepscope.core.errors import BadInput, MissingData, SameRank
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run, stack
from stepscope.core.schema import TABLES
from stepscope.render.json import dumps, report_document
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
from stepscope.storage.folders import RankFiles
from stepscope.storage.opening import Opened, open_source
from stepscope.storage.processes import processes
from stepscope.storage.workers import Workers, in_this_process, using

from ..thoroughness import tries

pytestmark = pytest.mark.slow

ANALYSES = PluginGroup("analyses", Analysis).load()
HERE = in_this_process()
TWO = processes(2, cores=2, small=0)
RanksIn = Callable[..., Path]

# Folder, and what each trace of the corpus is called there: with and without steps, GPU, loader, shapes and stacks.
MIXED = {
    "rank_0.json.gz": "kineto/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz",
    "rank_1.json.gz": "local/cpu_mlp_plain/*.gz",
    "rank_5.json.gz": "hta/rank_unavailable/rank_not_found.json.gz",
    "rank_11.json.gz": "local/cpu_conv_nw2/*.gz",
    "rank_12.json.gz": "particle_transformer/gpu_working_chrome_trace.json.gz",
}


@pytest.fixture(params=["GPU and NCCL", "CPU and gloo", "spans of a worker", "all kinds", "a run folder"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder of real traces, or a run folder of two ranks."""
    if request.param == "a run folder":
        run: Path = request.getfixturevalue("two_runs")[0]
        return run
    corpus: Path = request.getfixturevalue("corpus")
    known = {"GPU and NCCL": "hta/sampled_2ranks", "CPU and gloo": "local/gloo_ddp2"}
    if request.param in known:
        return corpus / "traces" / known[request.param]
    if request.param == "spans of a worker":
        shutil.copytree(corpus / "traces" / "local" / "cpu_mlp", tmp_path, dirs_exist_ok=True)
        for trace in (corpus / "traces" / "local" / "gloo_ddp2").glob("*.gz"):
            if trace.name.startswith("n0_17977"):
                shutil.copy(trace, tmp_path)
        return tmp_path
    return _mixed(corpus, tmp_path)


def _mixed(corpus: Path, tmp_path: Path) -> Path:
    for name, trace in MIXED.items():
        shutil.copy(next(iter(sorted((corpus / "traces").glob(trace)))), tmp_path / name)
    (tmp_path / "notes.json").write_text('{"what": "something else"}')
    (tmp_path / "rank_3.json").write_text('{"schemaVersion": 1}')
    return tmp_path


def document(run: Run) -> str:
    return dumps(report_document(assemble(run)))


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    """Two processes that are started once: what they give is asked here, how they live in test_workers.py."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(time.sleep, (0.1, 0.1)))  # both are there before a test counts processes
        yield using(pool)


def test_a_report_does_not_depend_on_who_opens_the_ranks(job: Path, two: Workers) -> None:
    together = document(open_run(job))
    assert document(open_run(job, workers=HERE, first=assemble)) == together
    assert document(open_run(job, workers=two, first=assemble)) == together


def everything(run: Run) -> None:
    """All analyses, while a rank is open: it need not be opened again for each."""
    for analysis in ANALYSES.values():
        with suppress(MissingData):
            analysis(run)


def test_analyses_do_not_depend_on_who_opens_the_ranks(job: Path) -> None:
    together, apart = open_run(job), open_run(job, workers=HERE, first=everything)
    for analysis in ANALYSES.values():
        try:
            expected = analysis(together)
        except MissingData:
            with pytest.raises(MissingData):
                analysis(apart)
        else:
            assert_frame_equal(analysis(apart), expected, check_exact=True)


def test_tables_do_not_depend_on_who_opens_the_ranks(job: Path) -> None:
    together, apart = open_run(job), open_run(job, workers=HERE)
    for name in TABLES:
        assert apart.rows(name) == together.rows(name)
        assert_frame_equal(apart.optional(name), together.optional(name))
    on_host = pl.col("kind") == "operator"
    assert_frame_equal(apart.where("host", on_host, "rank", "name"), together.where("host", on_host, "rank", "name"))
    assert_frame_equal(apart.optional("device", "start"), together.optional("device", "start"))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened, in order, as often as they are, where they are too large to be kept."""
    names: list[str] = []

    def noted(source: RankFiles, *, use_cache: bool, wait: bool = True) -> Opened:
        names.extend(path.name for path in source.paths)
        return open_source(source, use_cache=use_cache, wait=wait)

    monkeypatch.setattr(stepscope.storage.ranks, "open_source", noted)
    monkeypatch.setattr(stepscope.storage.ranks, "SMALL", 0)
    return names


def test_a_report_opens_each_rank_once(job: Path, opened: list[str]) -> None:
    """Twice where ranks are so different that some were not asked at first what others were."""
    document(open_run(job, workers=HERE, first=assemble))
    alike = not {"rank_12.json.gz", "n0_17977.1795174241064800514.pt.trace.json.gz"} & {*opened} or len(opened) == 2
    assert max(map(opened.count, opened)) <= (1 if alike else 2)


@pytest.mark.parametrize("name", sorted(ANALYSES))
def test_an_analysis_opens_each_rank_once(four_ranks: Path, opened: list[str], name: str) -> None:
    with suppress(MissingData):
        ANALYSES[name](open_run(four_ranks, workers=HERE, first=ANALYSES[name]))
    assert len(opened) == 5


def test_what_was_not_computed_first_is_computed_when_it_is_asked_for(
    four_ranks: Path, opened: list[str], two: Workers
) -> None:
    run = open_run(four_ranks, workers=two)
    expected = device_time(open_run(four_ranks))
    assert_frame_equal(device_time(run), expected)
    opened.clear()
    assert_frame_equal(device_time(run), expected)
    assert not opened


def test_one_rank_can_be_asked_alone(four_ranks: Path, opened: list[str]) -> None:
    run = open_run(four_ranks, workers=HERE)
    opened.clear()
    assert run.per_rank(device_time.compute, stack, only=2)["rank"].to_list() == [2]
    assert opened == ["worker2.json.gz"]


def test_small_ranks_of_this_process_are_read_once(
    four_ranks: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch, two: Workers
) -> None:
    monkeypatch.setattr(stepscope.storage.ranks, "SMALL", 1 << 20)
    run = open_run(four_ranks, workers=HERE)
    expected = device_time(open_run(four_ranks, workers=two))
    opened.clear()
    assert_frame_equal(device_time(run), expected)
    assert_frame_equal(run.optional("host", "start"), open_run(four_ranks, workers=two).optional("host", "start"))
    assert opened == []


def test_progress_counts_ranks_and_bytes(four_ranks: Path) -> None:
    told: list[tuple[int, int, int, int]] = []
    open_run(four_ranks, workers=HERE, ranks_done=lambda *counts: told.append(counts))
    whole = sum(file.stat().st_size for file in four_ranks.iterdir())
    assert [done for done, *_ in told] == [0, 1, 2, 3, 4, 5]
    assert {(ranks, size) for _, ranks, _, size in told} == {(5, whole)}
    assert told[0][2] == 0 and told[-1][2] == whole


def test_hundreds_of_ranks(ranks_in: RanksIn) -> None:
    ranks = tries(100, 1024)
    folder = ranks_in("many", **{f"part_{rank}": rank for rank in range(ranks)})
    run = open_run(folder, workers=TWO, first=steps)
    table = steps(run)
    assert table["rank"].unique(maintain_order=True).to_list() == list(range(ranks))
    assert table.height == 3 * ranks
    waits = table.filter(pl.col("data_wait") > 100_000)["rank"].unique().sort().to_list()
    assert waits == list(range(1, ranks, 8))
    assert run.rows("device") == 18 * ranks


@pytest.mark.parametrize("workers", [None, HERE, TWO])
def test_two_traces_of_one_rank_are_refused(ranks_in: RanksIn, workers: object) -> None:
    folder = ranks_in("clash", a=0, b=1, c=1)
    with pytest.raises(SameRank, match=r"b\.json and c\.json are both of rank 1") as caught:
        open_run(folder, workers=workers)  # type: ignore[arg-type]
    assert str(folder / "b.json") in caught.value.next_step


def test_the_rank_in_a_trace_and_the_one_in_a_name_may_be_the_same(ranks_in: RanksIn) -> None:
    folder = ranks_in("clash", told=4, rank_4=None)
    with pytest.raises(BadInput, match=r"rank_4\.json and told\.json are both of rank 4"):
        open_run(folder, workers=HERE)


def test_which_rank_a_trace_has_is_said(ranks_in: RanksIn) -> None:
    run = open_run(ranks_in("named", told=4, rank_7=None, nothing=None), workers=HERE)
    assert run.optional("processes").select("rank", "rank_source").rows() == [
        (0, "assumed"), (4, "trace"), (7, "file name"),
    ]  # fmt: skip


def test_a_folder_in_which_nothing_is_a_trace(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text('{"what": "something else"}')
    with pytest.raises(BadInput, match="a folder without a run and without traces"):
        open_run(tmp_path, workers=HERE)


def test_ranks_without_data_leave_the_others_alone(ranks_in: RanksIn) -> None:
    folder = ranks_in("some", rank_0=0, rank_1=1)
    (folder / "rank_2.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    run = open_run(folder, workers=HERE, first=device_time)
    assert device_time(run)["rank"].to_list() == [0, 1]
    with pytest.raises(MissingData, match="memory"):
        run.table("memory", how="")


def test_a_missing_result_is_kept(ranks_in: RanksIn, opened: list[str]) -> None:
    run = open_run(ranks_in("two", rank_0=0, rank_1=1), workers=HERE, first=_stacks)
    for _ in range(2):
        with pytest.raises(MissingData, match="line samples"):
            _stacks(run)
    assert len(opened) == 2


def _stacks(run: Run) -> pl.DataFrame:
    return run.per_rank(_no_stacks, stack)


def _no_stacks(run: Run) -> pl.DataFrame:
    return run.table("stacks", how="record some")
