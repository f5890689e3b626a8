"""What is computed rank by rank is what is computed of all ranks at once: a contract over all that says it may be."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.device.device_time import device_time
from stepscope.core.errors import MissingData
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis, Run, chain, stack
from stepscope.core.synth import MS, Synth
from stepscope.report.assemble import assemble
from stepscope.storage import open_run

pytestmark = pytest.mark.slow

T = TypeVar("T")
ANALYSES = PluginGroup("analyses", Analysis).load()
MANY = 15  # of the functions below every report; analyses that it does not show are compared above
ROUNDING = 1e-14  # Polars divides by a column of one value by multiplying with its inverse
OF_RANK = {name: analysis for name, analysis in ANALYSES.items() if analysis.scope == "rank"}
CORPUS = {
    "GPU and NCCL": ("hta/sampled_2ranks",),
    "CPU and gloo": ("local/gloo_ddp2",),
    "one rank": ("local/cpu_mlp",),
}


def gpu_rank(synth: Synth, rank: int, *, steps: int = 2) -> None:
    """Steps of 100 ms with an operator, its kernel and a wait for it; ids are the same on all ranks."""
    synth.add("devices", rank=rank, device=0, name="V100", capability="7.0", sms=80)
    synth.add("processes", rank=rank, rank_source="trace", host="n0")
    for step in range(steps):
        t, c = 100 * step, 10 * step
        synth.host(f"ProfilerStep#{step}", "annotation", t, t + 100, rank=rank)
        synth.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", t, t + 20, rank=rank)
        synth.host("aten::mm", "operator", t + 30, t + 40, external_id=c + 1 + rank, rank=rank)
        synth.host("cudaLaunchKernel", "runtime", t + 32, t + 34, correlation=c + 1, external_id=c + 2, rank=rank)
        synth.kernel(t + 35, t + 60 + 10 * rank, "sgemm", correlation=c + 1, blocks_per_sm=0.5, rank=rank)
        block = {"device_type": 1, "device": 0, "thread": "1", "total_allocated": 900 + step}
        synth.add("memory", rank=rank, time=(t + 36) * MS, bytes=64, address=step, **block)
        synth.host("aten::item", "operator", t + 92, t + 98, rank=rank)
        synth.host("cudaStreamSynchronize", "runtime", t + 94, t + 96, correlation=c + 4, rank=rank)
        synth.kernel(t + 96, t + 97, "Memcpy HtoD (Pageable -> Device)", kind="memcpy", bytes=10**6, rank=rank)


def cpu_rank(synth: Synth, rank: int) -> None:
    """Steps of the probe with samples; a loader that stalls every tenth step, and an optimizer that loops."""
    synth.add("processes", rank=rank, rank_source="RANK", host="n1")
    synth.add("optimizers", rank=rank, name="SGD", module="torch.optim.sgd", parameters=400, elements=4000)
    for step in range(40):
        long = 90 if step % 10 == 9 else 0
        synth.step(step, 200 * step, 200 * step + 50 + long, data_wait=10 + rank, forward=5, backward=5, rank=rank)
        for sample in range(3):
            at = 200 * step + 30 + sample
            synth.sample(step, at, 20 + long, "other", "train.py", 12, function="main", text="save()", rank=rank)
            synth.sample(step, at, 10, "forward", "model.py", 7 + rank, expression="loss.item()", rank=rank)


def mixed() -> Run:
    """Ranks with a GPU, without one, with one step, and with nothing but a process."""
    synth = Synth()
    gpu_rank(synth, 0, steps=4)
    gpu_rank(synth, 1)
    cpu_rank(synth, 2)
    cpu_rank(synth, 5)
    gpu_rank(synth, 7, steps=1)
    synth.add("processes", rank=9, rank_source="trace")
    return synth.run()


def without_gpu() -> Run:
    synth = Synth()
    for rank in (0, 3):
        cpu_rank(synth, rank)
    return synth.run()


@pytest.fixture(params=["ranks of all kinds", "ranks without a GPU", *CORPUS])
def run(request: pytest.FixtureRequest) -> Run:
    makers: dict[str, Callable[[], Run]] = {"ranks of all kinds": mixed, "ranks without a GPU": without_gpu}
    if request.param in makers:
        return makers[request.param]()
    corpus: Path = request.getfixturevalue("corpus")
    return open_run([corpus / "traces" / name for name in CORPUS[request.param]])


def of_each_rank(run: Run) -> list[Run]:
    """Runs that hold one rank each, with what its own sources say in meta; what is of no rank, none of them holds."""
    ranks = run.optional("processes")["rank"].unique().sort()
    return [Run(dict(_of_rank(run, rank))) for rank in ranks]


def _of_rank(run: Run, rank: int) -> Iterator[tuple[str, pl.DataFrame]]:
    own = pl.col("rank") == rank
    for name, table in run.tables.items():
        if "rank" in table.columns:
            yield name, table.filter(own)
    sources = run.optional("processes").filter(own)["source"].drop_nulls()
    whose = [pl.col("source").str.starts_with(source) for source in sources]
    yield "meta", run.optional("meta").filter(pl.any_horizontal(pl.lit(False), *whose))


def known(run: Run, compute: Callable[[Run], T]) -> T | MissingData:
    try:
        return compute(run)
    except MissingData as missing:
        return missing


def assert_same(found: object, expected: object) -> None:
    """Equal, also where dataclasses hold arrays and do not compare; see ROUNDING."""
    assert type(found) is type(expected)
    if isinstance(expected, pl.DataFrame):
        assert isinstance(found, pl.DataFrame)
        assert_frame_equal(found, expected, check_exact=False, rel_tol=ROUNDING, abs_tol=0)
    elif isinstance(expected, MissingData):
        return  # which of several ranks says what is missing is open
    elif isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif is_dataclass(expected):
        for field in fields(expected):
            assert_same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=ROUNDING)
    else:
        assert found == expected


def joined(parts: Sequence[object]) -> object:
    """As `Run.per_rank` does it."""
    results = [part for part in parts if not isinstance(part, MissingData)]
    if not results:
        return parts[0]
    return stack(results) if isinstance(results[0], pl.DataFrame) else chain(results)  # type: ignore[arg-type]


def in_order(result: object) -> object:
    """Rows in one order: whoever asks for a table that is no analysis sorts it."""
    return result.sort(pl.all()) if isinstance(result, pl.DataFrame) else result


def test_analyses_of_ranks(run: Run) -> None:
    ranks = of_each_rank(run)
    for analysis in OF_RANK.values():
        assert_same(joined([known(rank, analysis) for rank in ranks]), known(run, analysis))


def test_everything_else_that_a_report_computes_of_ranks(run: Run) -> None:
    assemble(run)
    ranks = of_each_rank(run)
    computed = run.rank_results()
    assert len(computed) > MANY
    for compute, expected in computed.items():
        found = joined([known(rank, compute) for rank in ranks])
        assert_same(in_order(found), in_order(expected))


def test_what_is_of_no_rank_is_of_the_job() -> None:
    """The samples of the machine are of no rank, and what limits the job depends on which ranks have a GPU."""
    assert {name for name, analysis in ANALYSES.items() if analysis.scope == "job"} >= {"bound", "device-summary"}


def test_results_of_ranks_are_asked_for_and_joined() -> None:
    asked: list[int | None] = []

    class Three:
        def results(self, compute: Callable[[Run], T], only: int | None) -> list[T | MissingData]:
            asked.append(only)
            return [known(rank, compute) for rank in of_each_rank(mixed())[:3]]

    run = Run({}, "", Three())
    for _ in range(2):
        assert device_time(run)["rank"].to_list() == [0, 1]  # rank 2 has no device
    assert run.per_rank(device_time.compute, stack, only=1).height == 2  # known already
    assert asked == [None]


def test_functions_of_modules_only() -> None:
    """Other processes are sent the name of what they should compute."""
    for analysis in ANALYSES.values():
        assert not isinstance(analysis.compute, partial) and "<" not in analysis.compute.__qualname__
