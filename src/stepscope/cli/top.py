"""`stepscope top`: what a job and its machine do now."""

import sys
import time
from typing import TYPE_CHECKING

import click

from stepscope.cli._job_target import Target, job_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepscope.cli._top_screen import Reading
    from stepscope.core.report import Block
    from stepscope.observe.process_tree import ProcessCounters

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope top                       the machine, busiest processes first
  stepscope top 4711                  a process and all below it, recorded or not
  stepscope top stepscope-runs/RUN    a job that `stepscope run` records, with its steps
  stepscope top 4711 --once           one reading over a second
  stepscope top 4711 --json --count 60 > load.jsonl
"""
LOOK_AGAIN = 60.0  # seconds: all rules take a second of a core, which the job may need
BESIDE_COMMAND = 95  # letters of the other columns of processes
SHORTEST_COMMAND = 20
LEAST = 0.1  # seconds between readings: the kernel counts CPU time in hundredths


@click.command("top", epilog=_EXAMPLES, short_help="Show what a job and its machine do now.")
@click.argument("target", required=False, metavar="[PID|RUN]")
@click.option("--once", is_flag=True, help="One reading, then end")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N readings [default: with the job]")
@click.option(
    "--every", type=click.FloatRange(min=LEAST), default=1.0, metavar="S", help="Seconds a reading [default: 1]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a reading")
def COMMAND(target: str | None, once: bool, count: int | None, every: float, as_json: bool) -> None:
    """Show cores, disks, memory and the processes of a job: what htop, iotop and iostat show, once a second.

    PID is a process, recorded or not. RUN is the folder of a job that `stepscope run` records. On a terminal the screen
    is drawn anew until Ctrl-C; elsewhere readings follow one another. Workers of a DataLoader and ranks have names.
    """
    chosen = job_target(target, "top")
    show = _as_json() if as_json else _on_screen(chosen)
    readings = _readings(chosen, every)
    for number, reading in enumerate(readings, 1):
        show(reading)
        if once or number == count:
            return
    if chosen.pid is not None:
        click.echo(f"process {chosen.pid} has ended", err=True)


def _readings(target: Target, every: float) -> "Iterator[Reading]":
    """One each so many seconds, until the process ends."""
    from stepscope.cli._top_screen import Reading
    from stepscope.observe.gpus import Gpus
    from stepscope.observe.machine_counters import read_machine
    from stepscope.observe.pace import read_pace
    from stepscope.observe.process_tree import read_processes, read_tree
    from stepscope.observe.rates import machine_rates, process_rates

    (pid, folder), gpus = target, Gpus()
    before, processes = read_machine(), read_processes() if pid is None else read_tree(pid)
    due = time.monotonic() + every
    while processes:
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + every, time.monotonic())
        now = read_machine()
        later = read_processes(before=processes) if pid is None else read_tree(pid, before=processes)
        if not later or (pid is not None and _has_ended(processes[0], later[0])):
            return
        machine = machine_rates(before, now)
        pace = read_pace(folder) if folder else None
        yield Reading(machine, process_rates(processes, later, machine.seconds), pace, gpus.read(), gpus.missing)
        before, processes = now, later


def _has_ended(before: "ProcessCounters", now: "ProcessCounters") -> bool:
    """Whether nobody has waited for it yet, or another process has its number."""
    return now.state == "Z" or now.started != before.started


def _on_screen(target: Target) -> "Callable[[Reading], None]":
    from stepscope.cli._top_screen import busiest, screen, so_far
    from stepscope.render.document import Page
    from stepscope.render.terminal import console_for, print_block

    page = Page(name="top", subject="", parts=())
    found: list[Block] = []
    due, between = 0.0, ""

    def show(reading: "Reading") -> None:
        nonlocal found, due, between
        if target.folder and time.monotonic() >= due:
            found, due = so_far(target.folder), time.monotonic() + LOOK_AGAIN
        if target.pid is None:
            reading = reading._replace(processes=busiest(reading.processes))
        console = console_for(sys.stdout)  # anew: the window may have another size by now
        with console.capture() as captured:
            room = max(console.width - BESIDE_COMMAND, SHORTEST_COMMAND) if sys.stdout.isatty() else None
            for block in (*found, *screen(reading, room)):
                print_block(console, block, page)
        if sys.stdout.isatty():
            console.clear()
            sys.stdout.write(_fitting(captured.get(), console.height))
        else:
            sys.stdout.write(between + captured.get())
        between = "\n"
        sys.stdout.flush()

    return show


def _fitting(text: str, height: int) -> str:
    """As many lines as a screen has: the first ones say most."""
    lines = text.splitlines()
    if len(lines) < height:
        return text
    return "\n".join([*lines[: height - 2], f"… {len(lines) - height + 2} lines more with --once"])


def _as_json() -> "Callable[[Reading], None]":
    import json
    from dataclasses import asdict

    def show(reading: "Reading") -> None:
        processes, pace = [asdict(one) for one in reading.processes], reading.pace and asdict(reading.pace)
        about = {"schema": "stepscope-top", "version": 1, "epoch_ns": time.time_ns()}
        row = {
            **about,
            "machine": asdict(reading.machine),
            "processes": processes,
            "steps": pace,
            "gpus": list(reading.gpus),
        }
        print(json.dumps(row), flush=True)

    return show
