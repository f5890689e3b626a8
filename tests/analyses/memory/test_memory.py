"""The memory views, counted by hand: a training whose blocks are parameters, activations, gradients and the rest."""

from collections.abc import Iterable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from stepscope.analyses.memory.allocations import allocations
from stepscope.analyses.memory.memory_at_peak import memory_at_peak
from stepscope.analyses.memory.memory_curve import PARTS, memory_curve
from stepscope.analyses.memory.memory_lines import memory_lines
from stepscope.analyses.memory.memory_operators import memory_operators
from stepscope.analyses.memory.memory_operators_by_step import memory_operators_by_step
from stepscope.analyses.memory.memory_peaks import memory_peaks
from stepscope.core.errors import MissingData
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth

BACKWARD = "autograd::engine::evaluate_function: MmBackward0"


class Allocator:
    """Memory events of one device with the allocator's totals, as a profiler writes them."""

    def __init__(self, synth: Synth, *, before: int = 0, reserved: int = 10_000, **columns: object) -> None:
        self.synth, self.allocated, self.reserved = synth, before, reserved
        self.columns = {"device_type": 1, "device": 0, "thread": "1", **columns}

    def __call__(self, time: float, size: int, address: int, **columns: object) -> "Allocator":
        self.allocated += size
        self.synth.add(
            "memory", time=round(time * MS), bytes=size, address=address, total_allocated=self.allocated,
            total_reserved=self.reserved, **{**self.columns, **columns},
        )  # fmt: skip
        return self


def training() -> Synth:
    """Two steps of 100 ms: load 0-10, forward 10-40, backward on thread 2 to 70, optimizer 80-95."""
    synth = Synth()
    synth.add("devices", device=0, name="V100", memory=20_000)
    allocator = Allocator(synth, before=5_000)
    for step in range(2):
        t = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", t, t + 100)
        synth.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "annotation", t, t + 10)
        synth.host("aten::stack", "operator", t + 1, t + 9)
        synth.host("aten::linear", "operator", t + 12, t + 30)
        synth.host("aten::addmm", "operator", t + 14, t + 28)
        synth.host("aten::empty", "operator", t + 15, t + 16)
        synth.host(BACKWARD, "operator", t + 40, t + 70, thread="2")
        synth.host("aten::mm", "operator", t + 41, t + 60, thread="2")
        synth.host("Optimizer.step#Adam.step", "annotation", t + 80, t + 95)
        synth.host("aten::zeros_like", "operator", t + 81, t + 84)
        synth.host("aten::_foreach_add", "operator", t + 85, t + 90)
        if step:
            allocator(t + 1, -100, 1)  # the batch of the step before
        allocator(t + 2, 100, 1)
        if step:
            allocator(t + 11, -300, 4).allocated += 0  # zero_grad, and the loss of the step before
            allocator(t + 11.5, -10, 3)
        allocator(t + 15.5, 2_000, 2).reserved = 12_000
        allocator(t + 29, 10, 3)
        allocator(t + 42, 300, 4, thread="2")
        allocator(t + 43, 50, 5, thread="2")
        allocator(t + 59, -50, 5, thread="2")
        allocator(t + 65, -2_000, 2, thread="2")
        if not step:
            allocator(t + 82, 600, 6)
        allocator(t + 86, 40, 7)
        allocator(t + 89, -40, 7)
    return synth


def rows(frame: pl.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return frame.select(columns).rows()


def test_allocations_are_paired_and_told_by_their_phases() -> None:
    columns = ("start", "end", "bytes", "operator", "step", "phase", "freed_phase", "category", "fate")
    assert rows(allocations(training().run()), *columns) == [
        (2 * MS, 101 * MS, 100, "aten::stack", 0, "data_wait", "data_wait", "input", "freed"),
        (15_500_000, 65 * MS, 2_000, "aten::addmm", 0, "forward", "backward", "activation", "freed"),
        (29 * MS, 111_500_000, 10, "aten::linear", 0, "forward", "forward", "output", "freed"),
        (42 * MS, 111 * MS, 300, "aten::mm", 0, "backward", "forward", "gradient", "freed"),
        (43 * MS, 59 * MS, 50, "aten::mm", 0, "backward", "backward", "temporary", "freed"),
        (82 * MS, None, 600, "aten::zeros_like", 0, "optimizer", None, "optimizer state", "alive"),
        (86 * MS, 89 * MS, 40, "aten::_foreach_add", 0, "optimizer", "optimizer", "temporary", "freed"),
        (102 * MS, None, 100, "aten::stack", 1, "data_wait", None, "input", "alive"),
        (115_500_000, 165 * MS, 2_000, "aten::addmm", 1, "forward", "backward", "activation", "freed"),
        (129 * MS, None, 10, "aten::linear", 1, "forward", None, "unknown", "alive"),
        (142 * MS, None, 300, "aten::mm", 1, "backward", None, "gradient", "alive"),
        (143 * MS, 159 * MS, 50, "aten::mm", 1, "backward", "backward", "temporary", "freed"),
        (186 * MS, 189 * MS, 40, "aten::_foreach_add", 1, "optimizer", "optimizer", "temporary", "freed"),
    ]


def test_frees_without_an_allocation_and_allocations_whose_free_was_missed() -> None:
    synth = Synth()
    Allocator(synth, before=500)(1, -200, 9)(2, 30, 5)(3, 40, 5)(4, -40, 5)
    assert rows(allocations(synth.run()), "start", "end", "lifetime", "bytes", "fate") == [
        (None, 1 * MS, None, 200, "freed"),
        (2 * MS, None, None, 30, "unseen"),
        (3 * MS, 4 * MS, 1 * MS, 40, "freed"),
    ]
    (row,) = memory_peaks(synth.run()).iter_rows(named=True)
    assert (row["allocations"], row["frees"], row["unmatched_frees"], row["alive"]) == (2, 2, 1, 0)


def test_one_address_on_two_devices_is_two_blocks() -> None:
    synth = Synth()
    Allocator(synth)(1, 10, 7)(4, -10, 7)
    Allocator(synth, device=1)(2, 20, 7)
    assert rows(allocations(synth.run()), "device", "bytes", "fate") == [(0, 10, "freed"), (1, 20, "alive")]


def test_the_peak_and_its_surroundings() -> None:
    (row,) = memory_peaks(training().run()).iter_rows(named=True)
    assert row == {
        "rank": 0, "device_type": "CUDA", "device": 0, "allocated": 8_060, "time": 143 * MS, "step": 1,
        "phase": "backward", "rise": 3_060, "reserved": 12_000, "unused": 12_000 - 8_060,
        "capacity": 20_000, "share": 8_060 / 20_000, "reserved_share": 0.6, "growth": None, "steps": 2,
        "before": 5_000, "allocations": 13, "frees": 9, "unmatched_frees": 0, "alive": 4, "out_of_memory": 0,
    }  # fmt: skip


def test_what_lives_at_the_peak_adds_up_to_it() -> None:
    found = rows(memory_at_peak(training().run()), "category", "operator", "bytes", "blocks")
    assert found == [
        ("before the recording", None, 5_000, None),
        ("activation", "aten::addmm", 2_000, 1),
        ("optimizer state", "aten::zeros_like", 600, 1),
        ("gradient", "aten::mm", 300, 1),
        ("input", "aten::stack", 100, 1),
        ("temporary", "aten::mm", 50, 1),
        ("unknown", "aten::linear", 10, 1),
    ]
    assert sum(size for _, _, size, _ in found) == 8_060


def test_what_the_events_leave_out_is_a_row_of_its_own() -> None:
    synth = Synth()
    allocator = Allocator(synth, before=100)(1, 10, 1)
    allocator.allocated += 77  # an event that was dropped
    allocator(2, 20, 2)
    assert rows(memory_at_peak(synth.run()), "category", "bytes") == [
        ("before the recording", 100), ("not in the events", 77), ("unknown", 30),
    ]  # fmt: skip


def test_what_was_there_before_may_be_the_peak() -> None:
    synth = Synth()
    Allocator(synth, before=900)(1, -500, 1)(2, 100, 2)
    (row,) = memory_peaks(synth.run()).iter_rows(named=True)
    assert (row["allocated"], row["time"], row["rise"]) == (900, 1 * MS, 0)
    assert rows(memory_at_peak(synth.run()), "category", "bytes") == [("before the recording", 900)]


def test_without_totals_and_addresses_the_change_is_known() -> None:
    synth = Synth()
    for time, size in ((1, 100), (2, 50), (3, -100), (4, 20)):
        synth.add("memory", time=time * MS, bytes=size, device_type=0, device=-1, thread="1")
    run = synth.run()
    assert rows(memory_curve(run), "device", "change", "allocated", "reserved", "capacity") == [
        (None, change, None, None, None) for change in (100, 150, 50, 70)
    ]
    (row,) = memory_peaks(run).iter_rows(named=True)
    assert (row["device_type"], row["allocated"], row["rise"], row["alive"]) == ("CPU", None, 150, None)
    assert rows(memory_at_peak(run), "category", "bytes", "blocks") == [("unknown", 150, None)]
    with pytest.raises(MissingData, match="addresses"):
        allocations(run)


def test_a_cpu_has_no_pool() -> None:
    synth = Synth()
    Allocator(synth, device_type=0, device=-1, reserved=0)(1, 10, 1)
    assert rows(memory_curve(synth.run()), "allocated", "reserved") == [(10, None)]


@pytest.mark.parametrize(("levels", "growth"), [((0, 7, 14, 21), 7.0), ((0, 0, 0, 0), 0.0), ((0, 7, 100, 21), 7.0)])
def test_growth_is_the_median_slope(levels: tuple[int, ...], growth: float) -> None:
    synth = Synth()
    allocator = Allocator(synth)
    for step, level in enumerate(levels):
        synth.host(f"ProfilerStep#{step}", "annotation", 100 * step, 100 * step + 100)
        allocator(100 * step + 50, level - allocator.allocated or 1, step + 1)
        allocator.allocated = level
    (row,) = memory_peaks(synth.run()).iter_rows(named=True)
    assert (row["growth"], row["steps"]) == (pytest.approx(growth, abs=1), 4)


def test_out_of_memory_is_counted_on_accelerators() -> None:
    synth = Synth().add("instants", name="[OutOfMemory]", time=5)
    Allocator(synth)(1, 10, 1)
    Allocator(synth, device_type=0, device=-1)(1, 10, 1)
    assert rows(memory_peaks(synth.run()), "device_type", "out_of_memory") == [("CPU", None), ("CUDA", 1)]


def test_the_curve_keeps_every_peak() -> None:
    synth = Synth()
    allocator = Allocator(synth, reserved=5)
    for number in range(4 * PARTS):
        size = 1_000_000 if number == 777 else 10
        allocator.reserved = 99_999_999 if number == 333 else 5
        allocator(number, size, number + 1)(number + 0.5, -size, number + 1)
    curve = memory_curve(synth.run())
    assert curve.height <= 6 * PARTS < 8 * PARTS
    assert (curve["allocated"].max(), curve["reserved"].max()) == (1_000_000, 99_999_999)
    assert (curve["time"][0], curve["time"][-1]) == (0, round((4 * PARTS - 0.5) * MS))
    assert curve.filter(pl.col("allocated") == 1_000_000)["time"].to_list() == [777 * MS]


def test_operators_and_what_is_inside_them() -> None:
    found = rows(
        memory_operators(training().run()), "name", "calls", "increase_total", "increase_self", "allocated_total",
        "allocated_self", "allocations_total", "allocations_self",
    )  # fmt: skip
    assert found == [
        ("aten::empty", 2, 4_000, 4_000, 4_000, 4_000, 2, 2),
        ("aten::mm", 2, 600, 600, 700, 700, 4, 4),
        ("aten::zeros_like", 2, 600, 600, 600, 600, 1, 1),
        ("aten::stack", 2, 100, 100, 200, 200, 2, 2),
        ("aten::_foreach_add", 2, 0, 0, 80, 80, 2, 2),
        ("aten::linear", 2, 4_020, 20, 4_020, 20, 4, 2),
        ("aten::addmm", 2, 4_000, 0, 4_000, 0, 2, 0),
        (BACKWARD, 2, -3_400, -4_000, 700, 0, 4, 0),
        (None, None, -310, -310, 0, 0, 0, 0),
    ]


def test_operators_of_an_accelerator_come_before_those_of_the_cpu() -> None:
    synth = Synth().host("ProfilerStep#1", "annotation", 0, 10)
    for device_type, size in ((0, 8), (6, 4)):
        synth.host("aten::empty", "operator", device_type, device_type + 1)
        synth.add(
            "memory", thread="1", time=round((device_type + 0.5) * MS), device_type=device_type,
            device=0 if device_type else -1, bytes=size, address=device_type + 1,
        )  # fmt: skip
    for analysis in (memory_operators, memory_operators_by_step):
        assert rows(analysis(synth.run()), "device_type", "allocated_self") == [("HIP", 4), ("CPU", 8)]
    assert rows(memory_at_peak(synth.run()), "device_type", "bytes") == [("HIP", 4), ("CPU", 8)]


def test_operators_step_by_step_add_up() -> None:
    run = training().run()
    by_step = memory_operators_by_step(run)
    assert by_step["step"].unique().sort().to_list() == [0, 1]
    sizes = [
        name for name in by_step.columns if name.split("_")[0] in ("increase", "allocated", "allocations", "calls")
    ]
    keys = ["rank", "device_type", "device", "name"]
    summed = by_step.group_by(keys).agg(pl.col(sizes).sum()).sort(keys)
    whole = memory_operators(run).sort(keys).drop("calls")
    assert_frame_equal(summed.select(whole.columns), whole)


def test_lines_come_from_python_frames() -> None:
    synth = training()
    for step in range(2):
        synth.host("train.py(7): train", "python", 100 * step, 100 * step + 100)
        synth.host("model.py(30): forward", "python", 100 * step + 11, 100 * step + 35)
    found = rows(memory_lines(synth.run()), "file", "line", "function", "bytes", "blocks")
    assert found == [
        (None, None, None, 5_350, 2), ("model.py", 30, "forward", 2_010, 2), ("train.py", 7, "train", 700, 2),
    ]  # fmt: skip
    assert sum(row[3] for row in found) == 8_060


def test_modules_of_the_allocations() -> None:
    synth = training()
    for step in range(2):
        synth.host("nn.Module: Net_0", "python", 100 * step + 11, 100 * step + 35, module_id=0)
        synth.host(
            "nn.Module: Linear_1", "python", 100 * step + 12, 100 * step + 28, python_id=2 * step + 1, module_id=1
        )
    found = dict(rows(memory_at_peak(synth.run()), "operator", "module"))
    assert found["aten::addmm"].endswith("Linear_1")
    assert found["aten::linear"] == "Net_0"
    assert found["aten::stack"] is None


def test_blocks_of_another_thread_than_the_steps_are_unknown() -> None:
    synth = training()
    Allocator(synth, device_type=0, device=-1, thread="9")(20, 64, 70)(50, -64, 70)
    cpu = allocations(synth.run()).filter(pl.col("device_type") == "CPU")
    assert rows(cpu, "step", "phase", "category") == [(0, None, "unknown")]


def test_blocks_of_a_second_micro_batch() -> None:
    """What one forward allocates and the next frees is an output, not temporary: backward lies between."""
    synth = Synth()
    synth.host("ProfilerStep#0", "annotation", 0, 100)
    for t in (0, 40):
        synth.host("aten::mm", "operator", t + 1, t + 10)
        synth.host(BACKWARD, "operator", t + 20, t + 30, thread="2")
    Allocator(synth)(5, 10, 1)(6, 20, 2)(8, -20, 2)(45, -10, 1)
    assert rows(allocations(synth.run()), "bytes", "category") == [(10, "output"), (20, "temporary")]


@pytest.mark.parametrize(
    "analysis", [memory_curve, memory_peaks, memory_at_peak, memory_operators, memory_operators_by_step, allocations]
)
def test_time_may_start_anywhere_and_rows_come_in_any_order(analysis: Any) -> None:
    run, later = training().run(), 1_700_000_000_000_000_001
    names = ("start", "end", "time")

    def moved(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col(name) + later for name in names if name in frame.columns)

    expected = moved(analysis(run))
    shifted = {name: moved(frame) for name, frame in run.tables.items()}
    assert_frame_equal(analysis(Run(shifted)), expected)
    shuffled = {name: frame.sample(fraction=1, shuffle=True, seed=3) for name, frame in shifted.items()}
    assert_frame_equal(analysis(Run(shuffled)), expected)


SIZES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 1_000)), min_size=1, max_size=40)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(SIZES, st.integers(0, 3_000))
def test_rows_at_the_peak_add_up_whatever_happens(events: Iterable[tuple[int, int]], before: int) -> None:
    """Addresses are freed where they are held, now and then twice; the expected peak is counted here."""
    synth, held = Synth(), dict[int, int]()
    allocator, levels = Allocator(synth, before=before), [before]
    for time, (address, size) in enumerate(events):
        change = -held.pop(address) if address in held else size
        if change > 0 and size % 7:  # every seventh block is freed unseen
            held[address] = size
        allocator(time, change, address)
        levels.append(allocator.allocated)
    run = synth.run()
    assert memory_at_peak(run)["bytes"].sum() == max(levels)
    assert memory_peaks(run)["allocated"].to_list() == [max(levels)]
    assert memory_curve(run)["allocated"].max() == max(levels[1:])
