"""Memory timelines: the real one of the corpus, those that torch writes here, and damaged ones."""

import gzip
import json
import sys
import warnings
from pathlib import Path

import polars as pl
import pytest

from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_curve import memory_curve
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.errors import BadInput
from stepscope.storage import open_run

RAW = [
    [-1, 1, 1000, 0], [-1, 1, 200, 7], [5000, 2, 300, 4], [6000, 3, -200, 7], [6000, 3, 200, 7], [7000, 3, -300, 4],
    [7000, 3, 300, 5], [9000, 4, -300, 5],
]  # fmt: skip
PLOT = [
    [5 * 10**12, 6 * 10**12, 8 * 10**12],
    [[0, 1000, 0, 0, 0, 300, 0, 0, 0], [0, 1000, 0, 0, 7, 0, 300, 0, 0], [0, 1000, 0, 0, 7, 0, 0, 0, 0]],
]


def write(path: Path, content: object, *, packed: bool = False) -> Path:
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_raw_events(tmp_path: Path, packed: bool) -> None:
    run = open_run(write(tmp_path / "t.raw.json.gz", RAW, packed=packed))
    columns = ("time", "bytes", "category", "total_allocated")
    assert run.optional("memory", *columns).rows() == [
        (5000, 1000, "parameter", 1000), (5000, 200, "unknown", 1200), (5000, 300, "activation", 1500),
        (7000, -300, "activation", 1200), (7000, 300, "gradient", 1500), (9000, -300, "gradient", 1200),
    ]  # fmt: skip
    assert memory_at_peak(run).select("category", "bytes").rows() == [
        ("parameter", 1000), ("activation", 300), ("unknown", 200),
    ]  # fmt: skip
    assert memory_peaks(run).select("device_type", "device", "allocated", "rise").rows() == [(None, None, 1500, 1500)]


def test_plotted_sizes(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "t.json", PLOT))
    assert run.optional("memory", "time", "bytes", "category", "total_allocated").rows() == [
        (5 * 10**15, 1000, "parameter", 1000), (5 * 10**15, 300, "activation", 1300),
        (6 * 10**15, -300, "activation", 1000), (6 * 10**15, 7, "temporary", 1007),
        (6 * 10**15, 300, "gradient", 1307), (8 * 10**15, -300, "gradient", 1007),
    ]  # fmt: skip
    assert memory_curve(run)["allocated"].max() == 1307


def test_the_corpus(corpus: Path) -> None:
    path = corpus / "traces" / "hta" / "memory_analysis" / "memory_timeline.raw.gz"
    run = open_run(path)
    events = json.loads(gzip.decompress(path.read_bytes()))
    level = highest = 0
    for _, _, size, _ in sorted(events, key=lambda event: event[0]):
        level += size
        highest = max(level, highest)
    assert memory_peaks(run)["allocated"].to_list() == [highest]
    held = memory_at_peak(run)
    assert held["bytes"].sum() == highest
    assert {"parameter", "activation"} <= set(held["category"])


def test_what_torch_writes_here(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.Adam(model.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cpu = [ProfilerActivity.CPU]
        with profile(activities=cpu, record_shapes=True, profile_memory=True, with_stack=True) as prof:
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.randn(32, 64)).mean().backward()
                optimizer.step()
        prof.export_memory_timeline(str(tmp_path / "t.raw.json.gz"), device="cpu")
        prof.export_memory_timeline(str(tmp_path / "t.json"), device="cpu")
        prof.export_memory_timeline(str(tmp_path / "t.json.gz"), device="cpu")
    raw, plot, packed = (open_run(tmp_path / name) for name in ("t.raw.json.gz", "t.json", "t.json.gz"))
    parameters = sum(parameter.nelement() * 4 for parameter in model.parameters())
    held = dict(memory_at_peak(raw).select("category", "bytes").rows())
    assert held["parameter"] >= parameters
    assert held["optimizer state"] >= 2 * parameters
    assert plot.optional("memory").drop("rank").equals(packed.optional("memory").drop("rank"))
    per_time = pl.col("total_allocated").last()
    ends = [
        run.optional("memory").group_by(pl.col("time") // 1000, maintain_order=True).agg(per_time)["total_allocated"]
        for run in (raw, plot)
    ]
    assert ends[0].max() == ends[1].max()
    assert sys.modules["torch"] is torch


def test_the_picture_is_refused_with_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "t.html"
    path.write_text(
        '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n<body>\n</body>\n</html>'
    )
    with pytest.raises(BadInput, match="picture") as caught:
        open_run(path)
    assert "raw.json.gz" in caught.value.next_step


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ([[-1, 1, 5, 7], [1, 2, "x", 7]], ""),
        ([[10**12], [[0, 1, 2]]], "no list of"),
        ([[10**12, 10**12], [[0] * 9]], "as many times"),
        ([[10**12], [[0, None, *[0] * 7]]], "not a memory timeline"),
    ],
)
def test_what_is_odd_is_counted_or_refused(tmp_path: Path, content: object, why: str) -> None:
    path = write(tmp_path / "t.json", content)
    if why:
        with pytest.raises(BadInput, match=why):
            open_run(path)
    else:
        assert open_run(path).optional("skipped")["count"].to_list() == [1]
