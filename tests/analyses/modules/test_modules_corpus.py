"""Modules of real traces: sums that must hold, the plugin's module view, and a count without any of our tables."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stepscope.analyses.lib.device_work import device_work
from stepscope.analyses.modules.lib.module_calls import module_spans
from stepscope.analyses.modules.module_classes import module_classes
from stepscope.analyses.modules.module_kernels import module_kernels
from stepscope.analyses.modules.module_operators import module_operators
from stepscope.analyses.modules.modules import modules
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.storage import open_run

pytestmark = pytest.mark.slow

WITH_MODULES = (
    "kineto/unit/test_build_module_hierarchy.1.pt.trace.json",
    "local/cpu_mlp/n0_17764.1795174225666190325.pt.trace.json.gz",
    "local/cpu_conv_nw0/n0_17764.1795174226548957641.pt.trace.json.gz",
    "local/gloo_ddp2/n0_17976.1795174241058565631.pt.trace.json.gz",
    "tracelens/perf_model/normalization_layer_test.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "tracelens/sglang_decode/bs_32_rank0.json.gz",
)
BACKWARD = "autograd::engine::evaluate_function"
ULP = 0.5  # us: the plugin computes with floats


def opened(corpus: Path, trace: str) -> Run:
    path = corpus / "traces" / trace
    if not path.exists():
        pytest.skip(f"{trace} is not in the corpus")
    return open_run([path])


@pytest.mark.parametrize("trace", WITH_MODULES)
def test_times_of_modules_add_up(corpus: Path, trace: str) -> None:
    run = opened(corpus, trace)
    table = modules(run)
    roots = table.filter((pl.col("depth") == 0) | pl.col("module").is_null())
    assert table["host_self"].sum() == roots["host_total"].sum() > 0
    assert table["device_self"].sum() == roots["device_total"].sum()
    spans = module_spans(run).with_columns(duration=pl.col("end") - pl.col("start"))
    calls = spans.filter(pl.col("pass") == "forward").group_by("module").agg(pl.len(), pl.col("duration").sum())
    of_calls = table.filter(pl.col("pass") == "forward").join(calls, on="module", how="full")
    assert of_calls["calls"].to_list() == of_calls["len"].to_list()
    assert of_calls["host_total"].to_list() == of_calls["duration"].to_list()  # no autograd inside a forward here
    classes = module_classes(run)
    assert classes["host_self"].sum() == table["host_self"].sum()
    try:
        work = device_work(run)
    except MissingData:
        return
    assert table["device_self"].sum() == (work["end"] - work["start"]).sum()
    assert table["device_self"].sum() == module_kernels(run)["device_total"].sum()
    inside = table.drop_nulls("module")
    assert inside["device_self"].sum() == module_operators(run)["device_self"].sum()


@pytest.mark.parametrize(
    "trace",
    [
        "cpu_mlp/n0_17764.1795174225666190325", "cpu_mlp/n0_17764.1795174225891984858",
        "cpu_mlp_verbose/n0_17764.1795174228023937861", "cpu_mlp_verbose/n0_17764.1795174228299766861",
        "cpu_conv_nw0/n0_17764.1795174226548957641", "cpu_conv_nw0/n0_17764.1795174226915270316",
        "cpu_conv_nw2/n0_17764.1795174227490526962", "cpu_conv_nw2/n0_17764.1795174227653463393",
        "gloo_ddp2/n0_17976.1795174241058565631", "gloo_ddp2/n0_17977.1795174241064800514",
    ],
)  # fmt: skip
def test_forward_is_that_of_the_plugin(corpus: Path, trace: str) -> None:
    golden = corpus / "golden" / "tb" / "local" / f"{trace}.pt.trace.json"
    if not golden.exists():
        pytest.skip(f"no answer of the plugin for {trace}")
    expected = sorted(flattened("", json.loads(golden.read_text())["modules"]))
    table = modules(opened(corpus, f"local/{trace}.pt.trace.json.gz")).filter(pl.col("pass") == "forward")
    found = table.sort("module").select("module", "calls", "operators", "host_total", "host_python").rows()
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert [value / 1000 for value in ours[3:]] == pytest.approx(theirs[3:], abs=ULP * ours[1])


def flattened(above: str, nodes: list[dict[str, Any]]) -> list[tuple[str, int, int, float, float]]:
    """Rows of the plugin's tree: path, occurrences, operators, host total and self in us."""
    rows = []
    for node in nodes:
        path = above + node["name"]
        rows.append((path, node["occurrences"], node["operators"], node["host_total"], node["host_self"]))
        rows += flattened(path + ".", node["children"])
    return rows


def test_backward_of_a_real_network_counted_without_our_tables(corpus: Path) -> None:
    """Numbers of autograd and frames of the JSON itself: a function undoes the last operator with its number."""
    trace = "local/cpu_mlp/n0_17764.1795174225666190325.pt.trace.json.gz"
    table = modules(opened(corpus, trace)).filter(pl.col("pass") == "backward")
    events = json.loads(gzip.decompress((corpus / "traces" / trace).read_bytes()), parse_float=Decimal)["traceEvents"]
    expected = backward_by_hand([event for event in events if event["ph"] == "X"])
    found = {
        row["module"].rpartition(".")[2]: row["host_self"] for row in table.iter_rows(named=True) if row["host_self"]
    }
    assert found == expected
    assert {"Linear_0", "Linear_1", "ReLU_0", "CrossEntropyLoss_0"} <= set(found)


def backward_by_hand(events: list[dict[str, Any]]) -> dict[str, int]:
    """Sum of autograd functions, with what accumulates after them, by the innermost module around their operator."""
    frames = [event for event in events if event["name"].startswith("nn.Module: ")]
    last: dict[int, dict[str, Any]] = {}
    sums: dict[str, int] = defaultdict(int)
    whose = None
    for event in sorted((event for event in events if event.get("cat") == "cpu_op"), key=lambda event: event["ts"]):
        number = event["args"].get("Sequence number")
        if event["name"].startswith(BACKWARD):
            if "AccumulateGrad" not in event["name"]:
                whose = around(frames, last[number]) if number in last else None
            if whose:
                sums[whose] += int(event["dur"] * 1000)
        elif number is not None and not event["args"]["Fwd thread id"]:
            last[number] = event
    return dict(sums)


def around(frames: list[dict[str, Any]], event: dict[str, Any]) -> str | None:
    end = event["ts"] + event["dur"]
    holding = [frame for frame in frames if frame["ts"] <= event["ts"] and end <= frame["ts"] + frame["dur"]]
    innermost = max(holding, key=lambda frame: frame["ts"], default=None)
    return innermost["name"].removeprefix("nn.Module: ") if innermost else None
