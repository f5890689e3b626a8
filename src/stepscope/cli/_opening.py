"""Open what a command is about: the options that all of these commands have, and the progress of opening."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from stepscope.core.errors import BadInput
from stepscope.core.memory import import_arrays, keep_freed_memory

if TYPE_CHECKING:
    from stepscope.core.run import Run
    from stepscope.storage.workers import Workers

__all__ = ["Opening", "open_for", "opening", "opening_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The words given for the options of `opening`."""

    jobs: int | None
    dask: str | None
    no_cache: bool


def opening(command: Command) -> Command:
    """As `opening_options`, for commands that read a run before anything else."""

    @wraps(command)
    def ready(*words: Any, **more: Any) -> Any:
        import_arrays()
        return command(*words, **more)

    return opening_options(cast("Command", ready))


def opening_options(command: Command) -> Command:
    """Add the options of commands that open runs; the command gets them as keywords for `Opening`."""
    for option in (
        click.option("--no-cache", is_flag=True, help="Ignore the cache"),
        click.option("--dask", metavar="ADDRESS", help="Open ranks on the cluster of this Dask scheduler"),
        click.option(
            "-j", "--jobs", metavar="N", type=click.IntRange(min=1),
            help="Processes for opening ranks [default: one per core]",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def open_for(compute: Callable[[Run], Any], paths: Sequence[str], options: Opening) -> Run:
    """The run that paths name, opened so that `compute` is ready soon: a function of a module, or an analysis."""
    if "" in paths:
        raise BadInput("PATH", "is empty", next_step="name a run folder or a trace (is a variable unset?)")
    from stepscope.cli._progress import Reading
    from stepscope.core.boundary import or_failed
    from stepscope.storage import open_run

    with Reading() as reading, _named_as_asked():
        run = or_failed(
            " ".join(map(str, paths)),
            lambda: open_run(
                paths,
                workers=_workers(options),
                first=compute,
                use_cache=not options.no_cache,
                progress=reading.file,
                ranks_done=reading.ranks,
            ),
        )
    keep_freed_memory()
    return run


@contextmanager
def _named_as_asked() -> Iterator[None]:
    """Errors advise `stepscope report PATH`; who used another command is told that one."""
    try:
        yield
    except BadInput as error:
        asked = _asked()
        if not asked:
            raise
        advice = error.next_step.replace("`stepscope report ", f"`stepscope {asked} ")
        raise type(error)(error.path, error.why, where=error.where, next_step=advice) from error


def _asked() -> str:
    """The command that was used and the word before its paths, such as the analysis; none if it is about two runs."""
    ctx = click.get_current_context(silent=True)
    if ctx is None or not ctx.info_name:
        return ""
    arguments = [one for one in ctx.command.params if isinstance(one, click.Argument)]
    if sum(isinstance(one.type, click.Path) for one in arguments) != 1 or ctx.params.get("compare"):
        return ""
    words = [ctx.params.get(one.name or "") for one in arguments if not isinstance(one.type, click.Path)]
    return " ".join([ctx.info_name, *(word for word in words if isinstance(word, str))])


def _workers(options: Opening) -> Workers:
    if options.dask is not None:
        if options.jobs is not None:
            raise BadInput("--dask", "cannot be given together with --jobs", next_step="leave out one of the two")
        from stepscope.storage.cluster import dask

        return dask(options.dask)
    from stepscope.observe.cores import effective_cores
    from stepscope.storage.processes import processes

    cores = max(1, int(effective_cores().effective))
    if options.jobs is None:
        return processes(cores, cores=cores)
    return processes(options.jobs, cores=cores, small=0)
