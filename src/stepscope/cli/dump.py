"""`stepscope dump`: where all processes of a job are now."""

from typing import TYPE_CHECKING

import click

from stepscope.cli._job_target import job_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepscope.observe.stacks import StackGroup, Thread

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope dump stepscope-runs/RUN     a job that `stepscope run` records
  stepscope dump 4711                   a process and all below it, recorded or not
  stepscope dump 4711 --all             threads that rest, too
  stepscope dump 4711 --json > stacks.json
"""
INNERMOST = 3  # frames that are shown, and those of the job's own code; all with --all
_MAIN = "MainThread"


@click.command("dump", epilog=_EXAMPLES, short_help="Show where all processes of a job are: why does it hang?")
@click.argument("target", metavar="PID|RUN")
@click.option("--all", "everything", is_flag=True, help="Threads that rest, and whole stacks")
@click.option("--json", "as_json", is_flag=True, help="One JSON object")
def COMMAND(target: str, everything: bool, as_json: bool) -> None:
    """Show the Python stacks of all processes of a job, equal ones together: why does it hang?

    Each process stands still for some milliseconds while py-spy reads it. A rank that is elsewhere than the others is
    the one they wait for.
    """
    import os

    from stepscope.core.errors import BadInput
    from stepscope.observe.process_tree import read_tree
    from stepscope.observe.stacks import grouped, is_python, read_threads, tool

    chosen = job_target(target, "dump")
    spy = tool()
    if spy is None:
        raise BadInput("py-spy", "is not installed", next_step="pip install 'stepscope[live]'")
    tree = read_tree(chosen.pid) if chosen.pid is not None else ()
    ours = {tree[0].pid} if chosen.folder else set()
    names = {one.pid: _name(one.rank, one.worker, one.name) for one in tree}
    threads: list[Thread] = []
    unread: dict[int, str] = {}
    for one in tree:
        if one.pid in ours or one.pid == os.getpid() or not is_python(one.pid):
            continue
        found, why = read_threads(spy, one.pid)
        threads += found
        if why:
            unread[one.pid] = why
    if not threads:
        raise BadInput(target, _why(unread), next_step=_how(unread))
    groups = grouped(one for one in threads if everything or one.name == _MAIN or one.active)
    groups.sort(key=lambda group: not _ranks(group, names))
    if as_json:
        _print_json(groups, names, unread)
    else:
        _print(groups, names, unread, whole=everything)


def _name(rank: int | None, worker: bool, name: str) -> str:
    if worker:
        return "loader worker" if rank is None else f"loader worker of rank {rank}"
    return name if rank is None else f"rank {rank}"


def _why(unread: dict[int, str]) -> str:
    return next(iter(unread.values()), "no process below it runs Python")


def _how(unread: dict[int, str]) -> str:
    if not unread:
        return "name a process that runs Python: `stepscope top` shows those there are"
    return "use the same user or sudo; in a container, start it with --cap-add SYS_PTRACE"


def _print(groups: "Sequence[StackGroup]", names: dict[int, str], unread: dict[int, str], *, whole: bool) -> None:
    for line in _elsewhere(groups, names):
        click.echo(line)
    for number, group in enumerate(groups, 1):
        who = ", ".join(f"{names.get(one.pid, 'process')} ({one.pid})" for one in group.threads)
        holds = " · holds the GIL" if any(one.owns_gil for one in group.threads) else ""
        click.echo(f"\n{number}  {group.name} of {who} · {'runs' if group.threads[0].active else 'waits'}{holds}")
        for line in _lines(group, whole=whole):
            click.echo(line)
    for pid, why in unread.items():
        click.echo(f"\n{names.get(pid, 'process')} ({pid}) could not be read: {why}", err=True)


def _lines(group: "StackGroup", *, whole: bool) -> "Iterator[str]":
    """Innermost first: the last calls, and all of the job's own code; how many of libraries lie between."""
    left_out = 0
    for number, frame in enumerate(group.frames):
        if not (whole or number < INNERMOST or frame.of_user):
            left_out += 1
            continue
        if left_out:
            yield f"   … {left_out} of libraries"
            left_out = 0
        yield f" {'▶' if frame is group.own else ' '} {frame.short}:{frame.line} in {frame.function}"


def _elsewhere(groups: "Sequence[StackGroup]", names: dict[int, str]) -> list[str]:
    """Of ranks that are at several places, those at the rarer ones: the others wait for them."""
    ranked = [(group, _ranks(group, names)) for group in groups if group.name == _MAIN]
    places = [(group, ranks) for group, ranks in ranked if ranks]
    if not places:
        return []
    count = sum(len(ranks) for _, ranks in places)
    if len(places) == 1:
        return [f"All {count} ranks are at one place."] if count > 1 else []
    most = max(len(ranks) for _, ranks in places)
    return [
        f"{', '.join(ranks)} {'is' if len(ranks) == 1 else 'are'} not where most ranks are{_at(group)}"
        for group, ranks in places
        if len(ranks) < most
    ] or [f"The {count} ranks are at {len(places)} places."]


def _ranks(group: "StackGroup", names: dict[int, str]) -> list[str]:
    return [name for one in group.threads if (name := names.get(one.pid, "")).startswith("rank ")]


def _at(group: "StackGroup") -> str:
    own = group.own
    return f", but at {own.short}:{own.line} in {own.function}" if own else ""


def _print_json(groups: "Sequence[StackGroup]", names: dict[int, str], unread: dict[int, str]) -> None:
    import json
    from dataclasses import asdict

    rows = [
        {
            "thread": group.name, "frames": [asdict(frame) for frame in group.frames],
            "processes": [
                {"pid": one.pid, "name": names.get(one.pid), "active": one.active, "owns_gil": one.owns_gil}
                for one in group.threads
            ],
        }
        for group in groups
    ]  # fmt: skip
    missed = [{"pid": pid, "why": why} for pid, why in unread.items()]
    click.echo(json.dumps({"schema": "stepscope-dump", "version": 1, "groups": rows, "unread": missed}, indent=2))
