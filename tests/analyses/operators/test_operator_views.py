"""Operators by shape and stack, what is below each operator, and kernels by launch shape: counted by hand."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyses.device.kernel_launches import kernel_launches
from stepscope.analyses.device.kernels import kernels
from stepscope.analyses.lib.launch_calls import launches
from stepscope.analyses.operators.lib.operator_groups import numbered
from stepscope.analyses.operators.operator_kernels import operator_kernels
from stepscope.analyses.operators.operators import operators
from stepscope.analyses.operators.operators_by_shape import operators_by_shape
from stepscope.analyses.operators.operators_by_stack import operators_by_stack
from stepscope.core.errors import MissingData
from stepscope.core.intervals import Spans, spans, total, union
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

SMALL, LARGE = "[[2,8],[8,4]]", "[[64,8],[8,4]]"


def named(table: pl.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return table.select(columns).rows()


def shapes() -> Synth:
    """Two products of one shape, one of another that is nested in a call of its name, and one without shapes."""
    synth = Synth().host("aten::mm", "operator", 0, 10, input_dims=SMALL, input_types='["float","float"]')
    synth.host("aten::mm", "operator", 10, 30, input_dims=SMALL, input_types='["float","float"]')
    synth.host("aten::mm", "operator", 30, 60, input_dims=LARGE, input_types='["float","float"]')
    synth.host("aten::mm", "operator", 40, 50, input_dims=LARGE, input_types='["float","float"]')
    synth.host("aten::mm", "operator", 60, 64)
    for correlation, at in ((1, 1), (2, 12), (3, 41), (4, 61)):
        synth.host("cudaLaunchKernel", "runtime", at, at + 1, correlation=correlation)
        synth.kernel(at + 1, at + 3 + correlation, "hmma", correlation=correlation)
    return synth


def test_operators_by_the_shapes_and_types_of_their_inputs() -> None:
    table = operators_by_shape(shapes().run())
    assert named(table, "name", "input_dims", "calls", "host_total", "host_self", "device_total", "device_self") == [
        ("aten::mm", SMALL, 2, 30 * MS, 28 * MS, 7 * MS, 7 * MS),
        ("aten::mm", None, 1, 4 * MS, 3 * MS, 6 * MS, 6 * MS),
        ("aten::mm", LARGE, 2, 30 * MS, 29 * MS, 5 * MS, 5 * MS),
    ]
    whole = operators(shapes().run())
    for column in ("calls", "host_self", "device_self", "tensor_core_self"):
        assert table[column].sum() == whole[column].sum()


def test_equal_shapes_of_other_types_are_another_row() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 10, input_dims=SMALL, input_types='["float","float"]')
    synth.host("aten::mm", "operator", 10, 30, input_dims=SMALL, input_types='["c10::Half","c10::Half"]')
    assert named(operators_by_shape(synth.run()), "input_types", "calls", "device_self") == [
        ('["c10::Half","c10::Half"]', 1, None),
        ('["float","float"]', 1, None),
    ]


def test_without_recorded_shapes_the_command_that_records_them_is_named() -> None:
    with pytest.raises(MissingData, match="--with shapes"):
        operators_by_shape(Synth().host("aten::mm", "operator", 0, 10).run())


def training(*, later: float = 0) -> Synth:
    """Two calls of one line of train.py through a layer of torch, one of another line, and their backward."""
    synth = Synth().host("train.py(9): <module>", "python", 0, 100)
    for line, at in ((12, 0), (12, 20), (14, 40)):
        t = at + later
        synth.host(f"train.py({line}): step", "python", t, t + 19)
        synth.host("nn.Module: Linear_0", "python", t + 1, t + 18, module_id=0)
        synth.host("torch/nn/modules/linear.py(114): forward", "python", t + 2, t + 17)
        synth.host("<built-in function linear>", "python", t + 3, t + 16)
        synth.host("aten::linear", "operator", t + 4, t + 12, sequence=at)
        synth.host("aten::addmm", "operator", t + 6, t + 10, sequence=at)
    for at in (0, 20, 40):
        t = 110 + at + later
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        synth.host(name, "operator", t, t + 10, thread="2", sequence=at, forward_thread=1)
        synth.host("AddmmBackward0", "operator", t + 1, t + 9, thread="2", sequence=at, forward_thread=1)
        synth.host("aten::mm", "operator", t + 2, t + 8, thread="2")
    return synth.host("aten::zero_", "operator", 200, 201, thread="3")


def test_operators_by_call_stack_and_the_nearest_line_of_the_users() -> None:
    table = operators_by_stack(training().run()).sort("name", "line", nulls_last=True)
    rows = named(table, "name", "file", "line", "function", "calls", "backward")
    assert [row for row in rows if not str(row[0]).startswith("autograd")] == [
        ("AddmmBackward0", "train.py", 12, "step", 2, True),
        ("AddmmBackward0", "train.py", 14, "step", 1, True),
        ("aten::addmm", "train.py", 12, "step", 2, False),
        ("aten::addmm", "train.py", 14, "step", 1, False),
        ("aten::linear", "train.py", 12, "step", 2, False),
        ("aten::linear", "train.py", 14, "step", 1, False),
        ("aten::mm", "train.py", 12, "step", 2, True),
        ("aten::mm", "train.py", 14, "step", 1, True),
        ("aten::zero_", None, None, None, 1, False),
    ]
    stack = "torch/nn/modules/linear.py(114): forward;train.py(12): step;train.py(9): <module>"
    assert set(table.filter(pl.col("line") == 12)["stack"]) == {stack}


def test_what_backward_computes_again_keeps_its_own_stack() -> None:
    """On the CPU backward runs below the line that calls it; a checkpoint runs Python inside it."""
    synth = Synth().host("train.py(9): <module>", "python", 0, 100).host("train.py(3): step", "python", 1, 20)
    synth.host("aten::mul", "operator", 5, 9, sequence=4).host("train.py(5): step", "python", 30, 90)
    synth.host("CheckpointBackward", "operator", 40, 80, sequence=4, forward_thread=1)
    synth.host("aten::sum", "operator", 42, 44).host("train.py(1): layer", "python", 50, 70)
    synth.host("aten::relu", "operator", 55, 60)
    assert sorted(named(operators_by_stack(synth.run()), "name", "line", "backward")) == [
        ("CheckpointBackward", 3, True),
        ("aten::mul", 3, False),
        ("aten::relu", 1, False),
        ("aten::sum", 3, True),
    ]


def test_stacks_that_the_profiler_wrote_with_the_call() -> None:
    stack = "torch/nn/functional.py(1): linear;/home/me/model.py(7): forward"
    synth = Synth().host("aten::linear", "operator", 0, 9, call_stack=stack)
    synth.host("aten::linear", "operator", 10, 19, call_stack=stack).host("aten::relu", "operator", 20, 21)
    assert named(operators_by_stack(synth.run()), "name", "file", "line", "calls", "stack") == [
        ("aten::linear", "/home/me/model.py", 7, 2, stack),
        ("aten::relu", None, None, 1, None),
    ]


def test_without_recorded_stacks_the_command_that_records_them_is_named() -> None:
    with pytest.raises(MissingData, match="--with stacks"):
        operators_by_stack(Synth().host("aten::mm", "operator", 0, 10).run())


def compiled() -> Synth:
    """A compiled region with a Triton kernel, a graph that replays three kernels, and a kernel without a launch."""
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 100).host("Torch-Compiled Region", "annotation", 10, 30)
    synth.host("cuLaunchKernelEx", "driver", 12, 14, correlation=1).kernel(15, 20, "triton_poi_0", correlation=1)
    synth.host("cudaGraphLaunch", "runtime", 40, 44, correlation=2)
    for at, name in ((45, "gemm"), (50, "relu"), (60, "gemm")):
        synth.kernel(at, at + 2, name, correlation=2, graph_node=at)
    synth.kernel(70, 73, "Memcpy DtoH", kind="memcpy", correlation=9)
    return synth.host("aten::item", "operator", 80, 90).host("cudaStreamSynchronize", "runtime", 81, 88, correlation=3)


def test_what_each_operator_started_and_called() -> None:
    rows = named(operator_kernels(compiled().run()), "operator", "kind", "name", "launch", "calls", "started", "total")
    assert rows == [
        (None, "kernel", "gemm", "cudaGraphLaunch", 2, None, 4 * MS),
        (None, "memcpy", "Memcpy DtoH", None, 1, None, 3 * MS),
        (None, "kernel", "relu", "cudaGraphLaunch", 1, None, 2 * MS),
        (None, "runtime", "cudaGraphLaunch", None, 1, 3, 4 * MS),
        ("Torch-Compiled Region", "kernel", "triton_poi_0", "cuLaunchKernelEx", 1, None, 5 * MS),
        ("Torch-Compiled Region", "driver", "cuLaunchKernelEx", None, 1, 1, 2 * MS),
        ("aten::item", "runtime", "cudaStreamSynchronize", None, 1, 0, 7 * MS),
    ]


def test_calls_alone_and_work_alone() -> None:
    host = Synth().host("aten::item", "operator", 0, 9).host("cudaStreamSynchronize", "runtime", 1, 8)
    assert named(operator_kernels(host.run()), "operator", "name", "share") == [
        ("aten::item", "cudaStreamSynchronize", 1.0)
    ]
    assert named(operator_kernels(Synth().kernel(0, 4).run()), "operator", "name", "calls") == [(None, "gemm", 1)]
    with pytest.raises(MissingData, match="no device work"):
        operator_kernels(Synth().host("aten::mm", "operator", 0, 9).run())


def test_kernels_by_launch_shape_and_operator() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 20).host("aten::bmm", "operator", 20, 30)
    for correlation, (at, grid) in enumerate(((1, "[1,1,1]"), (5, "[1,1,1]"), (9, "[2,1,1]"), (21, "[1,1,1]")), 1):
        synth.host("cudaLaunchKernel", "runtime", at, at + 1, correlation=correlation)
        synth.kernel(
            at + 2, at + 2 + correlation, correlation=correlation, grid=grid, occupancy=correlation / 4,
            block="[128,1,1]", registers=32, shared_memory=0,
        )  # fmt: skip
    synth.kernel(50, 60)
    table = kernel_launches(synth.run())
    columns = ("name", "operator", "grid", "registers", "calls", "total", "mean", "max", "min")
    assert named(table, *columns) == [
        ("gemm", None, None, None, 1, 10 * MS, 10 * MS, 10 * MS, 10 * MS),
        ("gemm", "aten::bmm", "[1,1,1]", 32, 1, 4 * MS, 4 * MS, 4 * MS, 4 * MS),
        ("gemm", "aten::mm", "[1,1,1]", 32, 2, 3 * MS, 1.5 * MS, 2 * MS, 1 * MS),
        ("gemm", "aten::mm", "[2,1,1]", 32, 1, 3 * MS, 3 * MS, 3 * MS, 3 * MS),
    ]
    assert named(table, "occupancy", "deviation", "share")[2] == (
        pytest.approx((1 * 0.25 + 2 * 0.5) / 3),
        pytest.approx(0.5**0.5 * MS),
        pytest.approx(3 / 20),
    )


def test_a_step_is_no_operator() -> None:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 9)
    synth.host("cudaLaunchKernel", "runtime", 1, 2, correlation=1).kernel(3, 4, correlation=1)
    assert kernels(synth.run())["operator"].to_list() == [None]


def test_eligible_is_what_multiplies_matrices_or_holds_or_started_what_does() -> None:
    synth = Synth().host("MyFunctionBackward", "operator", 0, 20).host("aten::mm", "operator", 1, 9)
    synth.host("custom::op", "operator", 30, 40).host("cudaLaunchKernel", "runtime", 31, 32, correlation=1)
    synth.kernel(33, 35, "nvjet_tst_64x32", correlation=1).host("aten::add", "operator", 50, 60)
    rows = named(operators(synth.run()), "name", "tensor_core_eligible")
    assert sorted(rows) == [
        ("MyFunctionBackward", True),
        ("aten::add", False),
        ("aten::mm", True),
        ("custom::op", True),
    ]


@st.composite
def recordings(draw: st.DrawFn) -> Run:
    """Nested operators of three names on two threads, with launches of up to three kernels each."""
    synth = Synth()
    correlation = 0
    for thread in ("1", "2"):
        at = 0
        for _ in range(draw(st.integers(0, 4))):
            depth = draw(st.integers(0, 3))
            for level in range(depth):
                name, shape = draw(st.sampled_from("abc")), draw(st.sampled_from((SMALL, LARGE)))
                synth.host(name, "operator", at + level, at + 20 - level, thread=thread, input_dims=shape)
            correlation += 1
            synth.host("launch", "runtime", at + 5, at + 6, thread=thread, correlation=correlation)
            for _ in range(draw(st.integers(0, 3))):
                start, length = draw(st.integers(0, 90)), draw(st.integers(0, 9))
                kind = draw(st.sampled_from(("kernel", "memcpy")))
                synth.kernel(start, start + length, draw(st.sampled_from("xy")), kind=kind, correlation=correlation)
            at += 20
    return synth.host("a", "operator", 100, 101, thread="3", input_dims=SMALL).kernel(95, 96, "x").run()


@pytest.mark.slow
@given(recordings())
@settings(max_examples=40, deadline=None)
def test_all_views_hold_all_work(run: Run) -> None:
    work = run.optional("device")
    duration = int((work["end"] - work["start"]).sum())
    below = operator_kernels(run)
    assert below.filter(pl.col("kind").is_in(("kernel", "memcpy")))["total"].sum() == duration
    assert kernel_launches(run)["calls"].sum() == kernels(run)["calls"].sum() == (work["kind"] == "kernel").sum()
    by_name, by_shape = operators(run), operators_by_shape(run)
    assert by_name["device_self"].sum() == by_shape["device_self"].sum()
    own = below.filter(pl.col("operator").is_in(list("abc")) & pl.col("kind").is_in(("kernel", "memcpy")))
    assert by_name["device_self"].sum() == own["total"].sum()
    told = bool((launches(run).call >= 0).any())  # without any launch no operator's work is known
    for row in by_name.iter_rows(named=True):
        inside = _work_inside(run, row["name"])
        expected = (total(inside), total(union(inside))) if told else (None, None)
        assert (row["device_total"], row["device_busy"]) == expected
    for table in (by_name, by_shape):
        assert (table["device_busy"] <= table["device_total"]).all()
        assert (table["device_self"] <= table["device_total"]).all()
        assert (table["host_self"] <= table["host_total"]).all()


def _work_inside(run: Run, name: str) -> Spans:
    """Spans of the device work whose launch lies in an operator of a name, looked up one by one."""
    found = launches(run)
    assert found.tree is not None
    inside = []
    for work, operator in enumerate(found.operator.tolist()):
        around = set()
        while operator >= 0:
            around.add(found.tree.frame["name"][operator])
            operator = int(found.tree.nesting.parent[operator])
        if name in around:
            inside.append(work)
    return spans(found.work[inside])


def test_names_alone_get_the_numbers_that_other_keys_get() -> None:
    name = pl.Series("name", ["b", "a", None, "b", "c", None, "a"])
    kind = pl.Enum(["c", "unused", "a", "b"])
    names = pl.DataFrame({"rank": [3] * 7, "name": name.cast(kind)})
    number, groups = numbered(names)
    assert number.tolist() == [0, 1, 2, 0, 3, 2, 1]
    assert groups["name"].to_list() == ["b", "a", None, "c"]
    others, texts = numbered(names.with_columns(pl.col("name").cast(pl.String)))
    assert others.tolist() == number.tolist()
    assert texts.equals(groups.with_columns(pl.col("name").cast(pl.String)))
