"""Modules: forward, backward and recomputation, on the host and on the device, counted by hand."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from stepscope.analyses.modules.lib.module_calls import module_spans
from stepscope.analyses.modules.module_classes import module_classes
from stepscope.analyses.modules.module_kernels import module_kernels
from stepscope.analyses.modules.module_operators import module_operators
from stepscope.analyses.modules.module_steps import module_steps
from stepscope.analyses.modules.modules import modules
from stepscope.core.errors import MissingData
from stepscope.core.run import Analysis, Run
from stepscope.core.synth import MS, Synth

from .modules_by_hand import ACCUMULATE, EVALUATE, frame, launch, two_layers

ALL = (modules, module_operators, module_kernels, module_steps, module_classes)
TIMES = ("host_total", "host_self", "host_python", "device_total", "device_self", "device_busy")


def in_ms(table: pl.DataFrame, *columns: str) -> list[tuple[object, ...]]:
    """Rows with times in ms."""
    return table.select(
        pl.col(name) / MS if table.schema[name] == pl.Int64 and name in TIMES else pl.col(name) for name in columns
    ).rows()


def test_forward_and_backward_of_each_instance() -> None:
    table = modules(two_layers(Synth()).run())
    assert in_ms(table, "module", "pass", "calls", *TIMES, "operators") == [
        ("Net_0", "forward", 1, 30, 6, 6, 25, 0, 25, 0),
        ("Net_0", "backward", 1, 23, 0, 0, 26, 0, 26, 0),
        ("Net_0.Linear_0", "forward", 1, 12, 12, 4, 10, 10, 10, 1),
        ("Net_0.Linear_0", "backward", 1, 10, 10, 0, 15, 15, 15, 1),
        ("Net_0.Linear_1", "forward", 1, 12, 12, 4, 15, 15, 15, 1),
        ("Net_0.Linear_1", "backward", 1, 13, 13, 0, 11, 11, 11, 2),
        (None, None, None, None, None, None, 2, 2, 2, None),
    ]
    assert table.row(2, named=True) | {"rank": 0} == table.row(2, named=True) | {
        "depth": 1, "class": "Linear", "parent": "Net_0", "host_per_step": 12.0 * MS,
        "device_per_step": 10.0 * MS,
    }  # fmt: skip


def test_several_steps_are_kept_apart_and_averaged() -> None:
    synth = two_layers(two_layers(Synth()), at=100, sequence=15)
    frame(synth, "Net", 0, 210, 220)  # after the last marked step
    table = modules(synth.run()).filter(module="Net_0", **{"pass": "forward"})
    assert in_ms(table, "calls", "host_total", "device_total") == [(3, 70, 50)]
    assert table.select("host_per_step", "device_per_step").rows() == [(30.0 * MS, 25.0 * MS)]
    of_steps = module_steps(synth.run()).filter(module="Net_0")
    assert in_ms(of_steps, "step", "pass", "calls", "host_total", "device_total") == [
        (5, "forward", 1, 30, 25), (5, "backward", 1, 23, 26), (15, "forward", 1, 30, 25), (15, "backward", 1, 23, 26)
    ]  # fmt: skip


def test_operators_and_kernels_of_an_instance() -> None:
    run = two_layers(Synth()).run()
    rows = module_operators(run).filter(module="Net_0.Linear_0")
    columns = ("pass", "name", "calls", "host_total", "host_self", "device_total", "device_self", "launched")
    assert in_ms(rows, *columns) == [
        ("forward", "aten::addmm", 1, 5, 4, 10, 10, 1),
        ("forward", "aten::linear", 1, 8, 3, 10, 0, 0),
        ("backward", "AddmmBackward0", 1, 9, 8, 15, 15, 1),
        ("backward", EVALUATE + "AddmmBackward0", 1, 10, 1, 15, 0, 0),
    ]
    kernels = module_kernels(run)
    assert in_ms(kernels, "module", "pass", "operator", "name", "calls", "device_total") == [
        ("Net_0.Linear_0", "forward", "aten::addmm", "gemm", 1, 10),
        ("Net_0.Linear_0", "backward", "AddmmBackward0", "gemm", 1, 15),
        ("Net_0.Linear_1", "forward", "aten::linear", "gemm", 1, 15),
        ("Net_0.Linear_1", "backward", "AddmmBackward0", "gemm", 1, 10),
        ("Net_0.Linear_1", "backward", ACCUMULATE, "add", 1, 1),
        (None, None, "aten::mse_loss", "mse", 1, 2),
    ]  # fmt: skip


def test_modules_of_one_class_together() -> None:
    rows = module_classes(two_layers(Synth()).run())
    assert in_ms(rows, "class", "pass", "instances", "calls", "host_total", "host_self", "device_total") == [
        ("Linear", "forward", 2, 2, 24, 24, 25), ("Net", "forward", 1, 1, 30, 6, 25),
        ("Linear", "backward", 2, 2, 23, 23, 26), ("Net", "backward", 1, 1, 23, 0, 26),
    ]  # fmt: skip


def test_a_class_inside_its_own_class_counts_once() -> None:
    synth = frame(Synth(), "Sequential", 0, 0, 30)
    frame(synth, "Sequential", 1, 10, 20)
    assert in_ms(module_classes(synth.run()), "instances", "calls", "host_total", "host_self") == [(2, 2, 30, 30)]


def test_calls_and_functions_as_spans() -> None:
    spans = module_spans(two_layers(Synth()).run())
    rows = spans.select("thread", pl.col("start", "end") // MS, "module", "depth", "pass").rows()
    assert rows == [
        ("1", 10, 40, "Net_0", 0, "forward"),
        ("1", 12, 24, "Net_0.Linear_0", 1, "forward"),
        ("1", 26, 38, "Net_0.Linear_1", 1, "forward"),
        ("2", 55, 65, "Net_0.Linear_1", 1, "backward"),
        ("2", 66, 69, "Net_0.Linear_1", 1, "backward"),
        ("2", 70, 80, "Net_0.Linear_0", 1, "backward"),
    ]
    assert module_spans(Synth().run()).is_empty()
    assert module_spans(Synth().run()).schema == spans.schema


def test_without_device_work_device_times_are_unknown() -> None:
    table = modules(two_layers(Synth(), device=False).run())
    assert table["module"].null_count() == 0
    assert table.select("device_total", "device_self", "device_busy", "device_per_step").null_count().row(0) == (6,) * 4
    operators = module_operators(two_layers(Synth(), device=False).run())
    assert operators["device_self"].null_count() == operators.height > 0


def test_device_work_in_parallel_counts_once_in_busy() -> None:
    synth = frame(Synth(), "Net", 0, 0, 50)
    synth.host("aten::mm", "operator", 1, 9)
    launch(synth, 2, 1, 10, 30, "a")
    launch(synth, 4, 2, 20, 40, "b")
    (row, _) = modules(synth.run()).iter_rows(named=True)
    assert (row["device_total"], row["device_busy"]) == (40 * MS, 30 * MS)
    assert row["host_per_step"] is None


def test_a_module_that_is_called_again_in_backward_recomputes() -> None:
    """Activation checkpointing: a layer runs in backward again, then its own backward."""
    synth = frame(Synth(), "Net", 0, 0, 40)
    synth.host("CheckpointFunction", "operator", 5, 30, sequence=8, forward_thread=0)
    frame(synth, "Linear", 0, 10, 20)
    synth.host(EVALUATE + "CheckpointFunctionBackward", "operator", 50, 90, thread="2", sequence=8, forward_thread=1)
    frame(synth, "Linear", 0, 52, 60, thread="2")
    synth.host("aten::linear", "operator", 53, 58, thread="2", sequence=0, forward_thread=0)
    synth.host(EVALUATE + "AddmmBackward0", "operator", 62, 80, thread="2", sequence=0, forward_thread=2)
    assert in_ms(modules(synth.run()), "module", "pass", "calls", "host_total", "host_self", "host_python") == [
        ("Net_0", "forward", 1, 40, 30, 15),
        ("Net_0", "recompute", 0, 8, 0, 0),
        ("Net_0", "backward", 1, 32, 14, 0),
        ("Net_0.Linear_0", "forward", 1, 10, 10, 10),
        ("Net_0.Linear_0", "recompute", 1, 8, 8, 3),
        ("Net_0.Linear_0", "backward", 1, 18, 18, 0),
    ]


def test_backward_is_unknown_without_sequence_numbers() -> None:
    run = two_layers(Synth()).run()
    bare = Run({**run.tables, "host": run.tables["host"].with_columns(sequence=pl.lit(None, dtype=pl.Int64))})
    rows = modules(bare).filter(pl.col("pass") == "backward")
    assert rows["module"].to_list() == ["Net_0", "Net_0.Linear_0", "Net_0.Linear_1"]
    assert rows.select("calls", "host_total", "device_total", "operators").null_count().row(0) == (3,) * 4


def test_annotations_of_lightning_are_modules_where_there_are_no_frames() -> None:
    synth = Synth().host("[pl][module]my.models.Block: model.layer1", "annotation", 0, 30)
    synth.host("[pl][module]torch.nn.modules.linear.Linear: model.layer1.0.fc", "annotation", 5, 15)
    synth.host("aten::linear", "operator", 6, 14, sequence=3, forward_thread=0)
    synth.host("[pl][profile][Strategy]x", "annotation", 0, 40)
    synth.host(EVALUATE + "AddmmBackward0", "operator", 50, 60, thread="2", sequence=3, forward_thread=1)
    assert in_ms(modules(synth.run()), "module", "class", "pass", "host_total", "host_self", "depth", "parent") == [
        ("model.layer1", "Block", "forward", 30, 20, 0, None),
        ("model.layer1", "Block", "backward", 10, 0, 0, None),
        ("model.layer1.0.fc", "Linear", "forward", 10, 10, 1, "model.layer1"),
        ("model.layer1.0.fc", "Linear", "backward", 10, 10, 1, "model.layer1"),
    ]
    frame(synth, "Net", 0, 0, 40)
    assert modules(synth.run())["module"].unique().to_list() == ["Net_0"]


def test_collectives_of_gradients_are_told_apart() -> None:
    synth = two_layers(Synth())
    launch(synth, 68, 99, 80, 95, "ncclDevKernel_AllReduce_Sum_f32", thread="2")
    rows = modules(synth.run()).filter(pl.col("communication") > 0)
    assert rows.select("module", "pass", pl.col("device_total", "communication") // MS).rows() == [
        ("Net_0", "backward", 41, 15), ("Net_0.Linear_1", "backward", 26, 15)
    ]  # fmt: skip


def replicas() -> Synth:
    """Two threads whose operators have the same sequence numbers, as DataParallel makes them."""
    synth = Synth()
    for thread, number in (("1", 0), ("9", 1)):
        frame(synth, "Linear", number, 0, 20, thread=thread)
        synth.host("aten::linear", "operator", 5 + number, 10, thread=thread, sequence=0, forward_thread=0)
    synth.host(EVALUATE + "AddmmBackward0", "operator", 50, 60, thread="2", sequence=0, forward_thread=2)
    return synth


def test_arrows_tell_threads_with_the_same_numbers_apart() -> None:
    synth = replicas()
    for thread, time, begins in (("9", 6, True), ("2", 50, False)):
        synth.add("flows", thread=thread, time=time * MS, id=1, kind="fwdbwd", begins=begins)
    rows = modules(synth.run()).filter(pl.col("pass") == "backward")
    assert in_ms(rows, "module", "host_total") == [("Linear_1", 10)]
    assert modules(replicas().run()).filter(pl.col("pass") == "backward")["host_total"].to_list() == [None, None]


def test_a_second_derivative_belongs_to_the_module_of_the_first() -> None:
    synth = frame(Synth(), "Linear", 0, 0, 20)
    synth.host("aten::linear", "operator", 5, 10, sequence=3, forward_thread=0)
    synth.host(EVALUATE + "AddmmBackward0", "operator", 30, 50, thread="2", sequence=3, forward_thread=1)
    synth.host("aten::mm", "operator", 32, 40, thread="2", sequence=0, forward_thread=0)
    synth.host(EVALUATE + "MmBackward0", "operator", 60, 70, thread="2", sequence=0, forward_thread=2)
    rows = modules(synth.run()).filter(pl.col("pass") == "backward")
    assert in_ms(rows, "module", "calls", "host_total", "operators") == [("Linear_0", 1, 30, 2)]


def test_an_instance_below_two_parents_has_two_paths() -> None:
    synth = Synth()
    for number in range(2):
        frame(synth, "Layer", number, 20 * number, 20 * number + 15)
        frame(synth, "Rotary", 0, 20 * number + 5, 20 * number + 10)
    assert modules(synth.run())["module"].to_list() == ["Layer_0", "Layer_0.Rotary_0", "Layer_1", "Layer_1.Rotary_0"]


def test_names_without_a_number_get_the_number_of_the_module() -> None:
    synth = Synth().host("nn.Module: Conv2", "python", 0, 10, module_id=100)
    assert modules(synth.run()).select("module", "class").rows() == [("Conv2_100", "Conv2")]


@pytest.mark.parametrize("analysis", ALL)
def test_ranks_have_modules_of_their_own(analysis: Analysis) -> None:
    synth = two_layers(two_layers(Synth()), rank=3, at=7)
    both = analysis(synth.run())
    assert both["rank"].unique(maintain_order=True).to_list() == [0, 3]
    alone = analysis(two_layers(Synth(), rank=3, at=7).run())
    assert_frame_equal(both.filter(rank=3), alone)


@pytest.mark.parametrize("analysis", ALL)
def test_events_may_come_in_any_order_and_the_clock_have_another_zero(analysis: Analysis) -> None:
    run = two_layers(two_layers(Synth()), at=100, sequence=15).run()
    later = pl.col("start", "end") + 1_700_000_000_000_000_001
    tables = {
        name: frame.sample(fraction=1, shuffle=True, seed=7).with_columns(later if "start" in frame.columns else [])
        for name, frame in run.tables.items()
    }
    assert_frame_equal(analysis(Run(tables)), analysis(run))


@pytest.mark.parametrize("analysis", ALL)
def test_a_trace_without_python_frames_has_no_modules(analysis: Analysis) -> None:
    with pytest.raises(MissingData, match="no modules") as missing:
        analysis(Synth().host("aten::mm", "operator", 0, 1).kernel(0, 1).run())
    assert "--with stacks,modules" in missing.value.how
