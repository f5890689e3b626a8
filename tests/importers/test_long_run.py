"""Steps of a long run are merged with others like them, and say about it what all of them say."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from stepscope.analyses.steps.stalls import stalls
from stepscope.analyses.steps.steady_steps import steady_steps
from stepscope.analyses.steps.steps import steps
from stepscope.core.run import Run
from stepscope.importers.run_dir import old_steps, stacks
from stepscope.importers.run_dir import records as records_of_run
from stepscope.importers.run_dir import steps as recorded
from stepscope.importers.run_dir.records import STEP
from stepscope.importers.run_dir.rows import joined, picked
from stepscope.importers.run_dir.whole_steps import WHOLE
from stepscope.storage import open_run

from .run_files import EPOCH, HEADER, LINE, MONOTONIC, records, told, write_process, write_run

COUNT, PERIOD, STALL = 200_000, 500, 40_000_000
EPOCH_START, NO_LOADER = 8, 32


def long_run(folder: Path) -> Path:
    """Steps of 2 ms, more or less, with a stall of 40 ms in each 500th and one of a minute."""
    chance = np.random.default_rng(1)
    rows = np.zeros(COUNT, STEP.record)
    rows["step"] = np.arange(COUNT)
    for part, mean in (("data_wait", 2e5), ("forward", 6e5), ("backward", 1e6), ("optimizer", 1e5)):
        rows[part] = chance.gamma(4, mean / 4, COUNT)
    other = np.full(COUNT, 100_000)
    other[PERIOD - 1 :: PERIOD] += STALL
    other[123_456] = 60_000_000_000
    rows["samples"], rows["micro_batches"] = 32, 1
    rows["flags"][::10_000] = EPOCH_START
    durations = other + sum(rows[part] for part in ("data_wait", "forward", "backward", "optimizer"))
    rows["end"] = MONOTONIC + np.cumsum(durations)
    rows["start"] = rows["end"] - durations
    path = write_process(write_run(folder))
    (path / "steps.bin").write_bytes(
        HEADER.pack(b"STEPSCOPE-STEPS1", HEADER.size, STEP.record.itemsize, EPOCH, MONOTONIC) + rows.tobytes()
    )
    in_stalls = [
        LINE.pack(int(row["start"]) + 1, int(row["step"]), 20_000_000, 1, 0, 0) for row in rows[PERIOD - 1 :: PERIOD]
    ]
    in_others = [LINE.pack(int(row["start"]) + 1, int(row["step"]), 20_000_000, 0, 2, 0) for row in rows[100::250]]
    (path / "lines.bin").write_bytes(records(b"STEPSCOPE-LINES1", LINE.size, *in_stalls, *in_others))
    frame = (
        '{"id":%d,"frames":[["/t.py",1,"main"],["/t.py",%d,"%s"]],"call":null,"leaf":["/t.py",%d,"%s"],"text":"x()"}\n'
    )
    (path / "frames.jsonl").write_text(frame % (0, 20, "model", 20, "model") + frame % (1, 30, "log", 30, "log"))
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """The run step by step, and merged."""
    folder = long_run(tmp_path_factory.mktemp("long"))
    whole = open_run([str(folder)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recorded, "MOST", 50_000)
        patched.setattr(recorded, "ROWS", 8192)
        merged = open_run([str(folder)])
    return whole, merged


def test_sums_and_shares_stay_what_they_are(both: tuple[Run, Run]) -> None:
    whole, merged = map(steps, both)
    assert merged["weight"].sum() == COUNT
    for part in ("duration", "data_wait", "forward", "other", "samples"):
        assert (merged[part] * merged["weight"]).sum() == pytest.approx(whole[part].sum(), rel=1e-4)
    ours, theirs = (steady_steps(run) for run in both)
    assert theirs["duration"].mean() == pytest.approx(ours["duration"].mean(), rel=1e-3)
    assert theirs["weight"].max() == 16
    assert theirs.filter(pl.col("weight") < 16).height <= 1


@pytest.mark.parametrize("part", [0.01, 0.1, 0.5, 0.9, 0.99])
def test_percentiles_stay(both: tuple[Run, Run], part: float) -> None:
    whole, merged = (steady_steps(run)["duration"].quantile(part) for run in both)
    assert merged == pytest.approx(whole, rel=0.02)


def test_stalls_are_found_with_their_distance_and_line(both: tuple[Run, Run]) -> None:
    whole, merged = (stalls(run).row(0, named=True) for run in both)
    assert whole["cause"] == merged["cause"] == "line"
    assert (merged["file"], merged["line"]) == ("/t.py", 30) == (whole["file"], whole["line"])
    assert merged["distance"] == pytest.approx(PERIOD) == whole["distance"]
    assert merged["regular"] and whole["regular"]
    assert merged["long_steps"] == pytest.approx(whole["long_steps"], abs=16)
    assert merged["excess"] == pytest.approx(whole["excess"], rel=0.02)


def test_rows_lie_within_the_run_and_in_order(both: tuple[Run, Run]) -> None:
    whole, merged = map(steps, both)
    assert merged["start"].is_sorted()
    assert merged["step"].n_unique() == merged.height
    assert set(merged["step"]) <= set(whole["step"])
    assert (merged["start"].min(), merged["step"].min()) == (whole["start"].min(), 0)


def test_the_reader_is_told(both: tuple[Run, Run]) -> None:
    reason = "steps of a long run: each row stands for 16 steps, merged with those most like it"
    assert told(both[1])[reason] == 1
    assert not both[0].rows("skipped")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are full after a few thousand steps."""
    for module, name, value in (
        (records_of_run, "PIECE", 4096), (old_steps, "PIECE", 16_384), (old_steps, "YOUNG", 40_000),
        (old_steps, "MOST_ORDINARY", 4096), (recorded, "ROWS", 2048),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def test_old_steps_give_their_room_back_and_say_the_same(both: tuple[Run, Run], tmp_path: Path, small: None) -> None:
    (path,) = long_run(tmp_path).glob("rank-*")
    room = (path / "steps.bin").stat().st_blocks
    assert old_steps.fold(path) == 147_456
    assert old_steps.fold(path) == 0
    assert (path / "steps.bin").stat().st_blocks < room / 3
    assert (path / "steps.old.bin").stat().st_size < room * 512 / 8
    folded = open_run([str(tmp_path)])
    whole, merged = steps(both[0]), steps(folded)
    assert merged["weight"].sum() == pytest.approx(COUNT, abs=200)
    assert (merged["duration"] * merged["weight"]).sum() == pytest.approx(whole["duration"].sum(), rel=2e-3)
    for part in (0.1, 0.5, 0.9):
        times = (steady_steps(run)["duration"].quantile(part) for run in (both[0], folded))
        assert next(times) == pytest.approx(next(times), rel=0.02)
    stall = stalls(folded).row(0, named=True)
    assert (stall["cause"], stall["line"], stall["regular"]) == ("line", 30, True)
    assert stall["distance"] == pytest.approx(PERIOD, rel=0.1)
    assert merged["start"].is_sorted()


def test_a_growing_run_is_folded_again_and_again(tmp_path: Path, small: None) -> None:
    (path,) = long_run(tmp_path).glob("rank-*")
    data = (path / "steps.bin").read_bytes()
    folded = []
    for count in (60_000, 90_000, 150_000, COUNT):
        with (path / "steps.bin").open("r+b") as file:
            file.truncate(64 + min(count, 60_000) * 88 if count == 60_000 else file.seek(0, 2))
            file.seek(0, 2)
            file.write(data[file.tell() : 64 + count * 88])
        folded.append(old_steps.fold(path))
    assert sum(folded) == 147_456
    assert steps(open_run([str(tmp_path)]))["weight"].sum() == pytest.approx(COUNT, abs=200)


def test_where_no_holes_can_be_made_nothing_is_lost(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = long_run(tmp_path).glob("rank-*")

    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(old_steps, "_make_hole", refuse)
    with pytest.raises(OSError, match="not supported"):
        old_steps.fold(path)
    assert steps(open_run([str(tmp_path)]))["weight"].sum() == pytest.approx(COUNT, abs=200)


def test_steps_beside_a_trace_stay_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = long_run(tmp_path)
    (path,) = folder.glob("rank-*")
    window = '{"window":0,"status":"recorded","first_step":777,"last_step":779,"trace":"gone.json"}\n'
    (path / "windows.jsonl").write_text(window)
    monkeypatch.setattr(recorded, "MOST", 50_000)
    monkeypatch.setattr(recorded, "ROWS", 8192)
    traced = steps(open_run([str(folder)])).filter(pl.col("tags").list.contains("traced"))
    assert traced.select("step", "weight").rows() == [(777, 1), (778, 1), (779, 1)]


def test_samples_of_a_long_run_stand_for_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = long_run(tmp_path)
    monkeypatch.setattr(stacks, "MOST_SAMPLES", 400)
    thinned = open_run([str(folder)]).optional("stacks")
    assert thinned.height == 400
    assert thinned["weight"].sum() == 1200 * 20_000_000
    assert thinned.filter(pl.col("line") == 30)["weight"].sum() == pytest.approx(400 * 20_000_000, rel=0.01)


def test_a_record_of_impossible_size_is_no_record(tmp_path: Path) -> None:
    path = write_process(write_run(tmp_path))
    (path / "steps.bin").write_bytes(
        HEADER.pack(b"STEPSCOPE-STEPS1", HEADER.size, 1 << 31, EPOCH, MONOTONIC) + b"x" * 99
    )
    assert "steps.bin is not of the kind that this version reads: not read" in told(open_run([str(tmp_path)]))


def test_a_run_without_many_steps_is_not_merged(tmp_path: Path) -> None:
    run = open_run([str(long_run(tmp_path))])
    assert run.rows("steps") == COUNT
    assert run.optional("steps")["weight"].null_count() == COUNT


def test_rows_are_picked_and_joined_as_numpy_does_in_a_fraction_of_the_time() -> None:
    chance = np.random.default_rng(1)
    rows = np.zeros(1 << 16, WHOLE)
    rows["step"], rows["flags"] = np.arange(len(rows)), chance.integers(0, 9, len(rows))
    order, marked = chance.permutation(len(rows)).reshape(-1, 16), rows["flags"] > 3
    assert (picked(rows, order) == rows[order]).all()
    assert (picked(rows[::3], marked[::3]) == rows[::3][marked[::3]]).all()
    assert (joined([rows[::2], rows[:5]]) == np.concatenate([rows[::2], rows[:5]])).all()
    ours, numpys = least_time(lambda: picked(rows, order)), least_time(lambda: rows[order])
    assert ours < numpys / 2  # a twentieth on a machine that does nothing else, a third was seen on a busy one


def least_time(work: Callable[[], object]) -> float:
    def once() -> float:
        began = time.thread_time()
        work()
        return time.thread_time() - began

    return min(once() for _ in range(9))
