"""What `stepscope top` shows of readings that no machine here has."""

from dataclasses import replace
from typing import Any

from stepscope.cli._top_screen import Reading, screen
from stepscope.core.report import Block, Table, Text
from stepscope.observe.machine_counters import CoreCounters, MachineCounters
from stepscope.observe.pace import Pace
from stepscope.observe.process_tree import ProcessCounters
from stepscope.observe.rates import machine_rates, process_rates
from stepscope.render.format import text

SECOND = 1_000_000_000
MACHINE = MachineCounters(
    time=0, cores=(), disks=(), received=None, sent=None, memory=None, swap=None, shared=None, major_faults=None,
    stalled={}, periods=None, throttled_periods=None, throttled=None,
)  # fmt: skip
PROCESS = ProcessCounters(
    pid=1, started=5, parent=0, name="python", command="python train.py", state="R", threads=2, cpu=0, rss=2**30,
    major_faults=0, waited=None, read=None, written=None, call_read=None, call_written=None, switches=None,
    forced_switches=None, rank=None, worker=False,
)  # fmt: skip


def cores(count: int, seconds: int) -> MachineCounters:
    """After so many seconds in which core n was busy for n of `count` parts of the time."""
    part = SECOND * seconds // count
    rows = [
        CoreCounters(core=i, user=part * i, system=0, iowait=0, steal=0, idle=part * (count - i)) for i in range(count)
    ]
    return replace(MACHINE, cores=tuple(rows))


def shown(reading: Reading) -> tuple[list[str], dict[str, Table]]:
    blocks: list[Block] = screen(reading)
    tables = {block.title: block for block in blocks if isinstance(block, Table)}
    return [text(block) for block in blocks if isinstance(block, Text)], tables


def reading(**changes: Any) -> Reading:
    rates = machine_rates(MACHINE, replace(MACHINE, time=SECOND))
    return Reading(rates, process_rates([PROCESS], [PROCESS], 1.0), None)._replace(**changes)


def test_ranks_and_workers_have_names_and_lie_below_what_started_them() -> None:
    tree = [
        replace(PROCESS, pid=1, name="torchrun"),
        replace(PROCESS, pid=2, parent=1, rank=0),
        replace(PROCESS, pid=3, parent=2, rank=0, worker=True),
        replace(PROCESS, pid=4, parent=2, rank=0, worker=True),
        replace(PROCESS, pid=5, parent=2, rank=0, name="nvcc"),
        replace(PROCESS, pid=6, parent=1, rank=1),
    ]
    _, tables = shown(reading(processes=process_rates(tree, tree, 1.0)))
    assert [row[0] for row in tables["Processes"].rows] == [
        "torchrun", "  rank 0 (python)", "    loader worker 0", "    loader worker 1", "    nvcc", "  rank 1 (python)",
    ]  # fmt: skip


def test_what_a_process_used_is_of_the_time_between_the_readings() -> None:
    """A process that began in between has done all of it then; one with another's number did nothing before."""
    later = replace(PROCESS, cpu=3 * SECOND, waited=SECOND)
    known, unknown = process_rates([replace(PROCESS, waited=0)], [later, replace(later, pid=2)], 2.0)
    assert (known.cpu, known.waited, unknown.cpu) == (1.5, 0.5, 1.5)
    (again,) = process_rates([replace(PROCESS, cpu=9 * SECOND)], [replace(later, started=6)], 2.0)
    assert (again.cpu, again.waited, again.read) == (1.5, 0.5, None)


def test_a_job_that_stands_still_is_told() -> None:
    pace = Pace(step=1240, step_ns=41.2e6, data_wait=0.63, ended=0)
    machine = machine_rates(MACHINE, replace(MACHINE, time=30 * SECOND))
    assert shown(reading(machine=machine, pace=pace))[0][0] == (
        "Step 1,240 · 41.2 ms per step · data wait 63 % · no step for 30 s"
    )
    machine = machine_rates(MACHINE, replace(MACHINE, time=30_000_000))
    pace = replace(pace, data_wait=None)
    assert shown(reading(machine=machine, pace=pace))[0][0] == "Step 1,240 · 41.2 ms per step · last step 30 ms ago"


def test_of_many_cores_the_busiest_are_shown_and_all_are_counted() -> None:
    machine = machine_rates(cores(64, 0), cores(64, 1))
    told, tables = shown(reading(machine=machine))
    rows = tables["Cores"].rows
    assert len(rows) == 16 and [row[0] for row in rows[:2]] == [63, 62]
    assert told[0] == "31.5 of 64 cores in use"


def test_gpus_are_shown_or_said_to_be_unavailable() -> None:
    card = {"index": 0, "name": "H100", "utilization_ratio": 0.5, "power_w": 300.0}
    assert shown(reading(gpus=[card]))[1]["GPUs"].rows == ((0, "H100", 0.5, None, None, 300.0),)
    assert "GPUs: unavailable, no NVIDIA driver answers" in shown(reading(no_gpus="no NVIDIA driver answers"))[0]


def test_waits_and_a_quota_that_is_used_up_are_told() -> None:
    before = replace(MACHINE, stalled={"cpu": 0, "io": 0, "memory": 0}, throttled=0)
    now = replace(
        before, time=SECOND, stalled={"cpu": SECOND // 2, "io": 0, "memory": SECOND // 4}, throttled=SECOND // 5
    )
    told, _ = shown(reading(machine=machine_rates(before, now)))
    assert "Some task waited for CPU 50 %, for memory 25 % of the time" in told
    assert "The CPU quota of this container was used up 20 % of the time" in told
