"""Collectives and clocks of real traces of two ranks: the plugin's answers, and clocks that were moved on purpose."""

import gzip
import json
import os
import re
import shutil
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.communication.clock_offsets import clock_offsets
from stepscope.analyses.communication.collectives import collectives
from stepscope.analyses.communication.overlap import overlap
from stepscope.analyses.communication.process_groups import process_groups
from stepscope.analyses.device.device_time import device_time
from stepscope.core.run import Run
from stepscope.core.schema import TABLES
from stepscope.storage import open_run

ROOT = Path(os.environ.get("STEPSCOPE_CORPUS", Path(__file__).resolve().parents[4] / "shared"))
TRACES = ROOT / "traces"
GLOO, NCCL = "local/gloo_ddp2", "hta/sampled_2ranks"
FLOAT_GRID = 1_000  # ns: the plugin adds up some ten floats of a grid of 0.25 µs
US = 1_000
_TIMES = re.compile(r'("(?:ts|dur)":\s*)(\d+(?:\.\d+)?)')


def folder(name: str) -> Path:
    if not (TRACES / name).exists():
        pytest.skip(f"no traces of several ranks in {TRACES}")
    return TRACES / name


def with_moved_clock(source: Path, target: Path, *, milliseconds: int = 0, ppm: int = 0) -> Path:
    """A copy of the traces in which the clock of the last file's rank is ahead, and fast from its first event on."""
    target.mkdir()
    *others, last = sorted(source.glob("*.json.gz"))
    for other in others:
        shutil.copy(other, target)
    text = gzip.decompress(last.read_bytes()).decode()
    first = min(Decimal(time) for word, time in _TIMES.findall(text) if "ts" in word and Decimal(time) > 0)

    def moved(found: re.Match[str]) -> str:
        time = Decimal(found[2])
        if '"ts"' not in found[1]:
            return f"{found[1]}{time * (1_000_000 + ppm) / 1_000_000:.3f}"
        return f"{found[1]}{time + milliseconds * 1000 + (time - first) * ppm / 1_000_000:.3f}"

    (target / last.name).write_bytes(gzip.compress(_TIMES.sub(moved, text).encode(), 1))
    return target


def of_two_files(first: Path, second: Path) -> Run:
    """The two traces as ranks 0 and 1; nothing in them says so."""
    tables = {}
    runs = [open_run(first), open_run(second)]
    for name, columns in TABLES.items():
        parts = [run.optional(name) for run in runs]
        if "rank" in (column.name for column in columns):
            parts = [part.with_columns(rank=pl.lit(rank, pl.Int32)) for rank, part in enumerate(parts)]
        tables[name] = pl.concat(parts)
    return Run(tables)


@pytest.mark.parametrize("rank", [0, 1])
def test_transfers_of_gloo_are_the_plugins(rank: int) -> None:
    table = collectives(open_run(folder(GLOO)))
    golden = json.loads((ROOT / "golden/tb/local/gloo_ddp2/communication_operators.json").read_text(encoding="utf-8"))
    sums = {
        name: (calls, transfer, duration, bytes_)
        for name, calls, transfer, duration, bytes_ in table.filter(pl.col("rank") == rank)
        .group_by("collective")
        .agg(pl.len(), pl.col("transfer", "duration", "bytes").sum())
        .iter_rows()
    }
    for row in golden["ranks"][f"n0_1797{6 + rank}"]:
        calls, transfer, duration, size = sums.pop(row["name"].removeprefix("gloo:"))
        assert calls == row["calls"]
        assert transfer == pytest.approx(row["data_transfer_time"] * US, abs=FLOAT_GRID)
        sides = 2 if row["name"] == "gloo:all_gather" else 1  # what comes out is of both ranks; the plugin takes in
        assert size == row["total_size_bytes"] * sides
        if row["name"] != "gloo:all_reduce":  # of which two overlap: the plugin takes the length of the union
            assert duration == pytest.approx(row["total_latency"] * US, abs=FLOAT_GRID)
    assert list(sums) == ["barrier"]  # unknown to the plugin


@pytest.mark.parametrize("fixture", ["test_distributed_gloo_cpu", "test_distributed_gloo_gpu"])
def test_transfers_of_the_plugins_own_fixtures(fixture: str) -> None:
    """In `comm` of its answers, `real` is the last part of each range, as long as the shortest of the ranks."""
    files = [folder("kineto/unit") / f"{fixture}.{number}.pt.trace.json" for number in (1, 2)]
    table = collectives(of_two_files(*files))
    for rank in (0, 1):
        golden = json.loads((ROOT / f"golden/tb/kineto/unit/{fixture}.{rank + 1}.json").read_text(encoding="utf-8"))
        transfers = [sum(end - start for start, end in row["real"]) * US for row in golden["comm"]]
        assert table.filter(pl.col("rank") == rank)["transfer"].to_list() == transfers


@pytest.mark.parametrize(
    ("fixture", "expected"),
    [
        ("test_distributed_gloo_cpu", [(47, 74, 35, 0), (36, 64, 34, 12)]),
        ("test_distributed_gloo_gpu", [(31, 70, 39, 16), (16, 54, 44, 32)]),
    ],
)
def test_overlap_is_the_plugins(fixture: str, expected: list[tuple[int, ...]]) -> None:
    """What its unit tests expect: computation, overlapping, communication, other, in µs."""
    files = [folder("kineto/unit") / f"{fixture}.{number}.pt.trace.json" for number in (1, 2)]
    table = overlap(of_two_files(*files)).select("compute", "overlapped", "exposed_communication", "other")
    assert table.rows() == [tuple(time * US for time in row) for row in expected]


def test_only_what_fits_is_matched_in_sampled_traces() -> None:
    """Events of these two traces were left out at random, so that places in the step say nothing."""
    table = collectives(open_run(folder(NCCL))).filter(pl.col("rank") == 0).drop_nulls("match")
    assert table.select("step", "collective", "in_elements", "matched_by", "transfer", "waiting").rows() == [
        (551, "all_reduce", 19_618_307, "unique", 8_370 * US, 3_357 * US),
        (551, "all_gather", 16_777_216, "order", 42_496 * US, 0),
        (552, "all_reduce", 5_716_654, "unique", 13_838 * US, 22_320 * US),
        (552, "all_gather", 16_777_216, "order", 62_163 * US, 1_481 * US),
    ]


@pytest.mark.parametrize("name", [NCCL, "hta/trace_diff/control.json.gz"])
def test_exposed_time_of_the_groups_is_that_of_the_device(name: str) -> None:
    """Collectives of these traces do not overlap each other, so the sums are equal."""
    run = open_run(folder(name))
    of_groups = process_groups(run).group_by("rank", maintain_order=True).agg(pl.col("exposed").sum())
    assert of_groups.rows() == device_time(run).select("rank", "exposed_communication").rows()


def test_ranks_of_one_host_agree() -> None:
    reference, other = clock_offsets(open_run(folder(GLOO))).iter_rows(named=True)
    assert (reference["status"], other["status"]) == ("reference", "same-clock")
    assert other["low"] <= 0 <= other["high"]
    assert abs(other["offset"]) <= other["uncertainty"] < 100 * US


@pytest.mark.parametrize("name", [GLOO, NCCL])
@pytest.mark.parametrize("ppm", [0, 50])
def test_a_moved_clock_is_found_and_changes_nothing_else(name: str, ppm: int, tmp_path: Path) -> None:
    before = open_run(folder(name))
    after = open_run(with_moved_clock(folder(name), tmp_path / "moved", milliseconds=17, ppm=ppm))
    (was,), (is_now,) = (clock_offsets(run).filter(pl.col("rank") == 1).to_dicts() for run in (before, after))
    first = after.optional("host")["start"].min()
    true = 17_000 * US + (is_now["time"] - first) * ppm / 1e6
    assert is_now["low"] <= true <= is_now["high"]
    assert abs(is_now["offset"] - true) <= is_now["uncertainty"]
    window = int(collectives(after).select(pl.col("end").max() - pl.col("start").min()).item())
    assert is_now["offset"] - was["offset"] == pytest.approx(true, abs=10 + window * ppm / 1e6)
    assert is_now["status"] == ("other-clock" if name == GLOO else "aligned")
    matched, moved = (collectives(run).drop("start", "end") for run in (before, after))
    if ppm == 0:
        assert_frame_equal(moved, matched)
    else:  # one rank's own seconds are longer, and nothing else
        own = ["duration", "transfer", "waiting"]
        speeds = ["algorithm_bandwidth", "bus_bandwidth"]
        assert_frame_equal(moved.drop(own, speeds), matched.drop(own, speeds))
        largest = (moved.select(own) - matched.select(own)).select(pl.all().abs().max()).row(0)
        assert max(largest) <= max(matched["duration"]) * 2 * ppm / 1e6
