"""Call trees of sampled lines, of loader workers and of operators: what is in them, and that they add up."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.host.line_tree import line_tree
from stepscope.analyses.host.lines import lines
from stepscope.analyses.input_pipeline.loader_line_tree import loader_line_tree
from stepscope.analyses.input_pipeline.loader_lines import loader_lines
from stepscope.analyses.lib.host_spans import nested
from stepscope.analyses.operators.operator_tree import operator_tree
from stepscope.analyses.operators.operators import operators
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

TRAIN, DATA = "/me/train.py", "/me/data.py"
MAIN = f"{TRAIN}:9 main"
CONVOLUTION = {
    "call": "torch/nn/modules/module.py:1773 _call_impl", "leaf": "torch/nn/modules/conv.py:543 _conv_forward",
}  # fmt: skip
TREE = ["rank", "loader", "pid", "thread"]


def adds_up(table: pl.DataFrame) -> None:
    """Every node is its own time and the totals of the nodes below it."""
    keys = [name for name in TREE if name in table.columns]
    below = table.group_by(*keys, "parent").agg(below=pl.col("total").sum())
    joined = table.join(
        below, left_on=[*keys, "node"], right_on=[*keys, "parent"], how="left", nulls_equal=True
    ).with_columns(pl.col("below").fill_null(0))
    assert (joined["self"] + joined["below"] == joined["total"]).all()
    assert (table["self"] >= 0).all()


def sampled() -> Run:
    """Seven steady steps of 100 ms: half in a convolution, a quarter in a line of its own, a quarter waiting."""
    synth = Synth()
    for step in range(10):
        at = 100 * step
        synth.step(step, at, at + 100, data_wait=25, forward=75)
        frames = {"frames": [MAIN, f"{TRAIN}:7 forward"], "texts": ["main()", "x = conv(x)"]}
        synth.sample(step, at, 25, "data_wait", DATA, 41, frames=[MAIN, f"{DATA}:41 __getitem__"], function="f")
        synth.sample(step, at + 25, 50, "forward", TRAIN, 7, function="forward", **frames, **CONVOLUTION)
        synth.sample(step, at + 75, 25, "forward", TRAIN, 9, function="main", frames=[MAIN], leaf=MAIN)
    return synth.run()


def test_stacks_of_a_step_become_one_tree_by_phase() -> None:
    tree = line_tree(sampled())
    assert tree.select("depth", "name", "kind", "calls", "total", "self").rows() == [
        (0, "step", "root", 21, 100 * MS, 0),
        (1, "data wait", "phase", 7, 25 * MS, 0),
        (2, "main train.py:9", "user", 7, 25 * MS, 0),
        (3, "__getitem__ data.py:41", "user", 7, 25 * MS, 25 * MS),
        (1, "forward", "phase", 14, 75 * MS, 0),
        (2, "main train.py:9", "user", 14, 75 * MS, 25 * MS),
        (3, "forward train.py:7", "user", 7, 50 * MS, 0),
        (4, "_call_impl module.py:1773", "library", 7, 50 * MS, 0),
        (5, "_conv_forward conv.py:543", "library", 7, 50 * MS, 50 * MS),
    ]
    assert tree.filter(name="forward train.py:7").select("file", "line", "text", "share").rows() == [
        (TRAIN, 7, "x = conv(x)", 0.5)
    ]
    adds_up(tree)


def test_the_tree_of_lines_tells_what_lines_tells() -> None:
    run = sampled()
    phases = line_tree(run).filter(depth=1).select("name", "total").rows()
    told = lines(run).group_by("phase").agg(pl.col("time").sum()).sort("phase").rows()
    assert [(name.replace(" ", "_"), total) for name, total in phases] == told


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=12))
def test_odd_weights_add_up_too(weights: list[int]) -> None:
    synth = Synth()
    for step in range(4):
        synth.step(step, 7 * step, 7 * step + 7)
    for number, weight in enumerate(weights):
        synth.add("stacks", step=3, time=number, weight=weight, phase="other", collector=False, file=TRAIN,
                  line=number + 1, function="f", frames=[MAIN, f"{TRAIN}:{number + 1} f"])  # fmt: skip
    run = synth.run()
    tree = line_tree(run)
    adds_up(tree)
    assert tree["total"][0] == 7 * MS
    own = dict(tree.filter(pl.col("depth") == 3).select("line", "total").iter_rows())
    for line, time in lines(run).select("line", "time").iter_rows():
        assert abs(own[line] - time) <= 1


def test_what_the_sampler_could_not_describe_is_in_the_tree() -> None:
    synth = Synth()
    for step in range(4):
        synth.step(step, 10 * step, 10 * step + 10)
    synth.add("stacks", step=3, time=1, weight=6, phase="other", collector=False)
    synth.add("stacks", step=3, time=2, weight=3, phase="other", collector=False, frames=[],
              leaf="<other stacks>:0 <other stacks>")  # fmt: skip
    synth.add("stacks", step=3, time=3, weight=1, phase="other", collector=True, frames=[MAIN], leaf=MAIN)
    assert line_tree(synth.run()).select("depth", "name", "kind", "total").rows()[2:] == [
        (2, "not written down", "unknown", 6 * MS),
        (2, "<other stacks>", "unknown", 3 * MS),
        (2, "main train.py:9", "user", 1 * MS),
        (3, "garbage collector", "library", 1 * MS),
    ]


def test_workers_have_a_tree_for_each_loader_that_sums_up_what_loader_lines_tells() -> None:
    synth = Synth()
    for worker, loader, line, weight in ((0, 0, 3, 50), (1, 0, 3, 100), (1, 0, 4, 50), (0, 1, 9, 70)):
        synth.add(
            "worker_stacks", pid=str(worker), worker=worker, loader=loader, time=MS, weight=weight * MS, file=DATA,
            line=line, function="f", frames=[f"{DATA}:{line} f"], leaf="PIL/Image.py:7 resize",
            call="PIL/Image.py:7 resize",
        )  # fmt: skip
    run = synth.run()
    tree = loader_line_tree(run)
    assert tree.select("loader", "depth", "name", "total", "self").rows() == [
        (0, 0, "workers of loader 0", 200 * MS, 0),
        (0, 1, "f data.py:3", 150 * MS, 0),
        (0, 2, "resize Image.py:7", 150 * MS, 150 * MS),
        (0, 1, "f data.py:4", 50 * MS, 0),
        (0, 2, "resize Image.py:7", 50 * MS, 50 * MS),
        (1, 0, "workers of loader 1", 70 * MS, 0),
        (1, 1, "f data.py:9", 70 * MS, 0),
        (1, 2, "resize Image.py:7", 70 * MS, 70 * MS),
    ]
    walls = loader_lines(run).group_by("loader").agg(pl.col("wall").sum()).sort("loader").rows()
    assert tree.filter(depth=0).select("loader", "total").rows() == walls
    adds_up(tree)


def traced() -> Synth:
    """Two steps below a frame that lasts longer than both, a module with an operator, and a thread of autograd."""
    synth = Synth().host("/me/train.py(3): main", "python", 0, 1000)
    for step, start, length in ((5, 100, 100), (6, 200, 200)):
        synth.host(f"ProfilerStep#{step}", "annotation", start, start + length)
        synth.host("nn.Module: Net_0", "python", start + 10, start + 60)
        synth.host("aten::mm", "operator", start + 20, start + 40)
        synth.host("cudaLaunchKernel", "runtime", start + 21, start + 22)
        synth.host("aten::add", "operator", start + 70, start + 80, thread="2")
    return synth.add("threads", thread="2", name="pt_autograd_0")


def test_operators_of_all_steps_are_laid_over_each_other_by_thread() -> None:
    tree = operator_tree(traced().run())
    assert tree.select("thread", "steps", "depth", "name", "kind", "calls", "total", "self").rows() == [
        ("1", 2, 0, "thread 1", "root", 0, 150 * MS, 0),
        ("1", 2, 1, "main train.py:3", "user", 1, 150 * MS, 0),
        ("1", 2, 2, "ProfilerStep", "annotation", 2, 150 * MS, 100 * MS),
        ("1", 2, 3, "Net_0", "module", 2, 50 * MS, 30 * MS),
        ("1", 2, 4, "aten::mm", "operator", 2, 20 * MS, 19 * MS),
        ("1", 2, 5, "cudaLaunchKernel", "call", 2, 1 * MS, 1 * MS),
        ("2", 2, 0, "pt_autograd_0 (thread 2)", "root", 0, 10 * MS, 0),
        ("2", 2, 1, "aten::add", "operator", 2, 10 * MS, 10 * MS),
    ]
    adds_up(tree)


def test_self_times_of_operators_are_those_that_operators_tells() -> None:
    run = traced().run()
    tree = operator_tree(run).filter(kind="operator").group_by("name").agg(pl.col("self").sum() * 2)
    assert tree.sort("name").rows() == operators(run).select("name", "host_self").sort("name").rows()


def test_without_marked_steps_times_are_of_all_that_was_recorded() -> None:
    run = Synth().host("aten::mm", "operator", 0, 10).host("aten::mm", "operator", 20, 25).run()
    assert operator_tree(run).select("steps", "name", "calls", "total").rows() == [
        (None, "thread 1", 0, 15 * MS),
        (None, "aten::mm", 2, 15 * MS),
    ]


def test_a_step_in_which_nothing_ran_does_not_thin_the_mean() -> None:
    tree = operator_tree(traced().host("ProfilerStep#7", "annotation", 400, 401).run())
    assert tree.filter(thread="2")["total"].to_list() == [10 * MS] * 2


SPANS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 12)).map(lambda s: (s[0], s[1], s[1] + s[2])),
    min_size=1,
    max_size=14,
)


@settings(deadline=None)
@given(SPANS)
def test_spans_that_overlap_are_told_apart(spans: list[tuple[int, int, int]]) -> None:
    """No moment of a track is in two siblings, none is lost, and children stay inside."""
    track, start, end = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
    laid = nested(track, start, end)
    assert (laid.start >= start).all()
    assert (laid.start <= laid.end).all()
    beside: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row, parent in enumerate(laid.parent.tolist()):
        if parent >= 0:
            assert laid.start[parent] <= laid.start[row]
            assert laid.end[row] <= laid.end[parent]
        if laid.start[row] < laid.end[row]:
            beside.setdefault((int(track[row]), parent), []).append((int(laid.start[row]), int(laid.end[row])))
    for siblings in beside.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(siblings)))
    for number in (0, 1):
        covered = {moment for t, one, other in spans if t == number for moment in range(one, other)}
        outermost = {
            m for (t, p), them in beside.items() if (t, p) == (number, -1) for a, b in them for m in range(a, b)
        }
        assert covered == outermost


def test_a_real_trace_adds_up(corpus: object) -> None:
    from stepscope.storage import open_run

    run = open_run([f"{corpus}/traces/local/gloo_ddp2"])
    tree = operator_tree(run)
    adds_up(tree)
    assert tree.filter(node=0).height == 6


@pytest.mark.parametrize("name", ["api_py.json.gz", "nasty.json", "cpu_mlp"])
def test_traces_with_python_frames_add_up(corpus: object, name: str) -> None:
    from stepscope.storage import open_run

    adds_up(operator_tree(open_run([f"{corpus}/traces/local/{name}"])))
