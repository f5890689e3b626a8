"""Snapshots of the caching allocator, written by hand in the format that torch documents: no GPU is needed."""

import gzip
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from stepscope.analyses.memory.allocations import allocations
from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_curve import memory_curve
from stepscope.analyses.memory.memory_lines import memory_lines
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.errors import BadInput
from stepscope.storage import open_run

SITE = "/venv/lib/python3.11/site-packages/torch"
CALL = {"filename": f"{SITE}/nn/modules/module.py", "line": 1751, "name": "_call_impl"}
FORWARD = [
    {"filename": "??", "line": 0, "name": "torch::unwind::unwind()"},
    {"filename": f"{SITE}/nn/functional.py", "line": 20, "name": "linear"},
    {"filename": "/job/model.py", "line": 30, "name": "forward"},
    CALL,
    {"filename": "/job/train.py", "line": 7, "name": "main"},
]
BACKWARD = [{"filename": "??", "line": 0, "name": "torch::autograd::Engine::evaluate_function(...)"}]
OPTIMIZER = [
    {"filename": f"{SITE}/optim/adam.py", "line": 5, "name": "_init_group"},
    {"filename": "/job/train.py", "line": 9, "name": "main"},
]
MOVED = [
    {"filename": f"{SITE}/nn/modules/module.py", "line": 900, "name": "_apply"},
    {"filename": "/job/train.py", "line": 3, "name": "main"},
]
T = 1_700_000_000_000_000  # us


def entry(action: str, time: int, size: int, address: int | None, frames: list[dict[str, Any]]) -> dict[str, Any]:
    found = {"action": action, "size": size, "stream": 0, "time_us": T + time, "frames": frames, "pool_id": (0, 0)}
    return found if address is None else {**found, "addr": address}


def block(size: int, asked: int, state: str, frames: list[dict[str, Any]], address: int) -> dict[str, Any]:
    return {"size": size, "requested_size": asked, "state": state, "frames": frames, "address": address}


def snapshot() -> dict[str, Any]:
    """Parameters (300 asked, 512 held) from before; two segments; two iterations of forward, backward, optimizer."""
    trace = [
        entry("segment_alloc", 1, 4096, 2000, FORWARD),
        entry("alloc", 2, 1000, 2000, FORWARD),
        entry("alloc", 3, 300, 3024, BACKWARD),
        entry("free_requested", 4, 1000, 2000, BACKWARD),
        entry("free_completed", 5, 1000, 2000, BACKWARD),
        entry("alloc", 6, 600, 3536, OPTIMIZER),
        entry("free_requested", 7, 300, 3024, FORWARD),
        entry("free_completed", 7, 300, 3024, FORWARD),
        entry("alloc", 8, 1000, 2000, FORWARD),
        entry("alloc", 9, 400, 4160, BACKWARD),
        entry("free_requested", 10, 1000, 2000, BACKWARD),
        entry("oom", 11, 99_999, None, OPTIMIZER),
        entry("alloc", 12, 50, 2000, OPTIMIZER),
        entry("snapshot", 13, 0, 0, []),
    ]
    segments = [
        {
            "device": 0, "address": 1000, "total_size": 1024, "stream": 0, "segment_type": "small",
            "allocated_size": 512, "active_size": 512,
            "blocks": [block(512, 300, "active_allocated", MOVED, 1000), block(512, 0, "inactive", [], 1512)],
        },
        {
            "device": 0, "address": 2000, "total_size": 4096, "stream": 0, "segment_type": "large",
            "blocks": [
                block(1024, 50, "active_allocated", OPTIMIZER, 2000), block(512, 0, "inactive", [], 3024),
                block(624, 600, "active_allocated", OPTIMIZER, 3536),
                block(512, 400, "active_allocated", BACKWARD, 4160),
                block(1424, 0, "inactive", [], 4672),
            ],
        },
    ]  # fmt: skip
    return {"segments": segments, "device_traces": [trace, []], "allocator_settings": {"expandable_segments": False}}


def write(path: Path, content: object, protocol: int = pickle.DEFAULT_PROTOCOL) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path


def test_events_and_levels(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "snapshot_rank_3.pickle", snapshot()))
    table = run.optional("memory", "time", "bytes", "address", "total_allocated", "total_reserved")
    us = T * 1000
    assert table.rows() == [
        (us + 1000, 300, 1000, 300, 5120),
        (us + 1000, 0, None, 300, 5120),
        (us + 2000, 1000, 2000, 1300, 5120),
        (us + 3000, 300, 3024, 1600, 5120),
        (us + 4000, -1000, 2000, 600, 5120),
        (us + 6000, 600, 3536, 1200, 5120),
        (us + 7000, -300, 3024, 900, 5120),
        (us + 8000, 1000, 2000, 1900, 5120),
        (us + 9000, 400, 4160, 2300, 5120),
        (us + 10000, -1000, 2000, 1300, 5120),
        (us + 12000, 50, 2000, 1350, 5120),
    ]
    assert run.optional("processes", "rank", "rank_source").rows() == [(3, "file name")]
    assert run.optional("memory")["rank"].unique().to_list() == [3]
    assert ("allocator expandable_segments", "False") in run.optional("meta", "key", "value").rows()


def test_all_views_work(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "snapshot.pickle", snapshot()))
    (peak,) = memory_peaks(run).iter_rows(named=True)
    assert (peak["allocated"], peak["reserved"], peak["unused"], peak["out_of_memory"]) == (2300, 5120, 2820, 1)
    assert (peak["phase"], peak["device_type"], peak["device"]) == ("backward", "CUDA", 0)
    assert memory_at_peak(run).select("category", "file", "line", "bytes").rows() == [
        ("activation", "/job/model.py", 30, 1000),
        ("optimizer state", "/job/train.py", 9, 600),
        ("gradient", None, None, 400),
        ("before the recording", "/job/train.py", 3, 300),
    ]
    assert memory_lines(run).select("file", "line", "bytes").rows() == [
        ("/job/model.py", 30, 1000), ("/job/train.py", 9, 600), (None, None, 400), ("/job/train.py", 3, 300),
    ]  # fmt: skip
    assert memory_curve(run)["allocated"].max() == 2300
    assert allocations(run)["fate"].value_counts().sort("fate").rows() == [("alive", 4), ("freed", 3)]


def test_parameters_are_told_by_the_stack_of_the_move(tmp_path: Path) -> None:
    content = snapshot()
    content["device_traces"][0].insert(0, entry("alloc", 0, 300, 1000, MOVED))
    found = memory_at_peak(open_run(write(tmp_path / "s.pickle", content)))
    assert dict(found.select("category", "bytes").rows())["parameter"] == 300


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_and_gzip(tmp_path: Path, protocol: int) -> None:
    plain = open_run(write(tmp_path / "a.pickle", snapshot(), protocol)).optional("memory")
    packed = tmp_path / "b.pickle.gz"
    packed.write_bytes(gzip.compress(pickle.dumps(snapshot(), protocol)))
    assert plain.height == 11
    assert open_run(packed).optional("memory").equals(plain)


def test_a_snapshot_without_history_holds_its_blocks(tmp_path: Path) -> None:
    content = {"segments": snapshot()["segments"], "device_traces": [[]]}
    run = open_run(write(tmp_path / "s.pickle", content))
    assert memory_peaks(run).select("allocated", "reserved").rows() == [(1350, 5120)]
    assert memory_lines(run).select("line", "bytes").rows() == [(9, 650), (None, 400), (3, 300)]


def test_what_was_freed_of_before_is_in_the_levels(tmp_path: Path) -> None:
    """Everything was freed and given back, and the ring holds only the end of it."""
    trace = [entry("free_requested", 1, 700, 9000, FORWARD), entry("segment_free", 2, 4096, 8000, FORWARD)]
    run = open_run(write(tmp_path / "s.pickle", {"segments": [], "device_traces": [trace]}))
    assert run.optional("memory", "bytes", "total_allocated", "total_reserved").rows() == [
        (-700, 0, 4096), (0, 0, 0),
    ]  # fmt: skip
    assert memory_peaks(run).select("allocated", "before", "unmatched_frees").rows() == [(700, 700, 1)]


def test_old_snapshots_have_no_times_and_no_requested_frees(tmp_path: Path) -> None:
    content = snapshot()
    trace = [entry for entry in content["device_traces"][0] if entry["action"] != "free_requested"]
    content["device_traces"] = [[{key: e[key] for key in e if key != "time_us"} for e in trace]]
    run = open_run(write(tmp_path / "s.pickle", content))
    assert run.optional("memory")["time"].max() == 9
    (reason,) = run.optional("skipped")["reason"].to_list()
    assert "without times" in reason
    assert memory_peaks(run)["frees"].to_list() == [2]


def test_broken_entries_are_counted(tmp_path: Path) -> None:
    content = snapshot()
    content["device_traces"][0] += [{"action": "alloc", "size": "many"}, {"size": 3}, 17]
    run = open_run(write(tmp_path / "s.pickle", content))
    assert run.optional("skipped")["count"].to_list() == [2]  # what is no dictionary is no entry
    assert run.rows("memory") == 11


class Bomb:
    """Makes a file when it is unpickled as Python does it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_in_a_pickle_is_run(tmp_path: Path, protocol: int) -> None:
    proof = tmp_path / "ran"
    path = write(tmp_path / "s.pickle", {"segments": [Bomb(proof)], "device_traces": []}, protocol)
    with pytest.raises(BadInput, match=r"mkdir.*nothing of it was run"):
        open_run(path)
    assert not proof.exists()
    pickle.loads(path.read_bytes())  # it would have
    assert proof.exists()


@pytest.mark.parametrize("cut", [60, 200, 800])
def test_a_cut_pickle_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps(snapshot())[:cut])
    with pytest.raises(BadInput, match=r"not a whole pickle") as caught:
        open_run(path)
    assert "_dump_snapshot" in caught.value.next_step


@pytest.mark.parametrize("content", [{"segments": [], "device_traces": []}, {"segments": 3}, {"device_traces": [[{}]]}])
def test_a_snapshot_of_nothing_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(BadInput, match="holds no allocation"):
        open_run(write(tmp_path / "s.pickle", content))
