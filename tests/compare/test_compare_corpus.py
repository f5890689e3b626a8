"""Pairs of real traces: HTA's, TraceLens' and the TensorBoard plugin's, and one of each vendor."""

import json
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from stepscope.compare.comparison import Comparison, compare
from stepscope.compare.document import document_of
from stepscope.compare.page import page_of
from stepscope.compare.run_summary import measure
from stepscope.compare.tree_changes import PathChange
from stepscope.render.html import page_html
from stepscope.render.json import dumps
from stepscope.render.markdown import page_markdown
from stepscope.storage import open_run

from .test_page import SCHEMA, terminal

pytestmark = pytest.mark.slow

RESNET = "kineto/resnet50_num_workers_{}"
PAIRS = {
    "loader workers": (RESNET.format(0), RESNET.format(4)),
    "reduced by hand": ("hta/trace_compare/base.json.gz", "hta/trace_compare/test.json.gz"),
}


def compared(corpus: Path, a: str, b: str) -> Comparison:
    return compare(*(measure(open_run(str(corpus / "traces" / path), use_cache=True)) for path in (a, b)))


@pytest.mark.parametrize("pair", PAIRS)
def test_pairs_in_every_format(corpus: Path, pair: str) -> None:
    comparison = compared(corpus, *PAIRS[pair])
    jsonschema.validate(json.loads(dumps(document_of(comparison))), SCHEMA)
    page = page_of(comparison)
    assert page_html(page)
    assert page_markdown(page)
    assert terminal(comparison)


def test_loader_workers_explain_the_change_of_the_plugins_sample(corpus: Path) -> None:
    """The plugin's own reference: a step of 177,592 µs with 59,262 of loading against 141,068 with 1,186."""
    comparison = compared(corpus, *PAIRS["loader workers"])
    assert comparison.breakdown
    assert [comparison.breakdown.a, comparison.breakdown.b] == pytest.approx([177_592_000, 141_068_000], abs=1000)
    loading = next(row for row in comparison.breakdown.rows if row.name == "data loader")
    assert [loading.a, loading.b] == pytest.approx([59_262_000, 1_186_000], abs=1000)
    largest = max(comparison.breakdown.rows, key=lambda row: abs(row.difference))
    assert (largest.name, largest.matched) == ("data loader", "name")
    assert [doubt.cause for doubt in comparison.outcome.because] == ["few-steps", "few-steps"]
    assert any(found.rule == "input-bound" and found.a and not found.b for found in comparison.findings)


def test_operators_that_came_and_went_in_the_pair_of_holistic_trace_analysis(corpus: Path) -> None:
    """HTA's own expectation: three operators are added, and one of the two nccl:all_reduce is gone."""
    comparison = compared(corpus, *PAIRS["reduced by hand"])
    rows = comparison.by_name["operators on the host"].rows
    assert {row.name for row in rows if row.matched == "appeared"} == {
        "AddmmBackward0",
        "CatBackward0",
        "All2All_Pooled_Req",
    }
    assert not [row for row in rows if row.matched == "vanished"]
    came = {row.path[-1] for row in comparison.trees["host"].rows if isinstance(row, PathChange) and row.a is None}
    assert came >= {"AddmmBackward0", "CatBackward0", "All2All_Pooled_Req"}
    (reduced,) = comparison.by_name["annotations"].rows
    assert (reduced.name, reduced.calls_a, reduced.calls_b) == ("nccl:all_reduce", 1.0, 0.5)
    assert (reduced.a, reduced.b) == (round((66_000 + 67_000) / 2), 33_000)


def test_calls_by_path_name_what_the_loaders_workers_took_over(corpus: Path) -> None:
    """Loading and its operators leave the step; the copy to the device, now of unpinned memory, takes longer."""
    host = compared(corpus, *PAIRS["loader workers"]).trees["host"]
    assert sum(row.difference for row in host.rows) == host.b - host.a
    names = [row.path[1:] for row in host.rows if isinstance(row, PathChange)]
    assert names[:2] == [("enumerate(DataLoader)",), ("aten::to", "aten::copy_", "cudaMemcpyAsync")]
    gone = {row.path[1:]: row.calls_a for row in host.rows if isinstance(row, PathChange) and row.matched == "vanished"}
    assert gone[("enumerate(DataLoader)", "aten::div")] == 32


@pytest.mark.parametrize(
    "trace", ["hta/trace_diff/control.json.gz", "tracelens/mi300/gaunernst_bert-small-uncased__1016001.json.gz"]
)
def test_calls_by_path_hold_every_operator_of_the_steps_once(corpus: Path, trace: str) -> None:
    """By the last name of their path, calls are those of operators that start in a step, counted without a tree."""
    run = open_run(str(corpus / "traces" / trace), use_cache=True)
    side = measure(run)
    trees = compare(side, side).trees
    steps = run.where("host", pl.col("name").str.starts_with("ProfilerStep#"), "start", "end")
    starts = run.where("host", pl.col("kind") == "operator", "name", "start")
    inside = [((pl.col("start") >= start) & (pl.col("start") < end)) for start, end in steps.iter_rows()]
    counted = dict(starts.filter(pl.any_horizontal(inside)).group_by("name").len().iter_rows())
    assert sum(counted.values()) > 200
    for name, count in counted.items():
        ends = [row for row in trees["host"].rows if isinstance(row, PathChange) and row.path[-1] == name]
        assert sum(row.calls_a or 0 for row in ends) == pytest.approx(count / steps.height)
    assert {(row.difference, row.matched) for changes in trees.values() for row in changes.rows} == {(0, "name")}
