"""`stepscope export`: a trace with what stepscope found drawn into it, for Perfetto; or call stacks for speedscope."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from stepscope.cli._opening import Opening, open_for
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscope.core.paths import AnyPath
    from stepscope.core.run import Run
    from stepscope.export import Drawing

__all__ = ["COMMAND"]

_KNOWN = ("gaps", "critical-path", "counters", "loader")
_TRACE_NAMES = ("*.json", "*.json.gz")
_SUFFIXES = (".json", ".json.gz")
_FORMATS = ("perfetto", "speedscope")
_SPEEDSCOPE = ".speedscope.json"
_EXAMPLES = """\b
Examples:
  stepscope export trace.json.gz
  stepscope export trace.json.gz --overlay gaps,critical-path -o out.json.gz
  stepscope export trace.json -o out.json --force
  stepscope export folder-of-ranks/ -o drawn/
  stepscope export stepscope-runs/train-20260401-120000 -o drawn/
  stepscope export stepscope-runs/train-20260401-120000 --format speedscope -o train.speedscope.json
"""


@click.command("export", epilog=_EXAMPLES, short_help="Write a file for Perfetto or speedscope.")
@click.argument("paths", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--overlay", metavar="NAMES",
    help="Tracks to draw, with commas between [default: all recorded]",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(),
    help="Output file, or folder [default: NAME.overlay.json.gz]",
)  # fmt: skip
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS),
    help="Format [default: perfetto, or by the suffix of FILE]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite an existing file")
@click.option("--no-cache", is_flag=True, help="Ignore the cache")
def COMMAND(
    paths: tuple[str, ...], overlay: str | None, output: str | None, kind: str | None, force: bool, no_cache: bool
) -> None:
    """Add tracks for idle gaps, the critical path, counters and DataLoader workers to TRACE, for ui.perfetto.dev.

    The events of the trace do not change. Names that end in .gz are compressed. Each rank and each traced window gets
    its own file, on its own clock. A run without a trace gives its steps and its input pipeline.

    --format speedscope writes one file for www.speedscope.app: line samples, also of workers, and all host threads.
    """
    if kind == "speedscope" or (kind is None and (output or "").removesuffix(".gz").endswith(_SPEEDSCOPE)):
        if overlay is not None:
            raise BadInput(
                "--overlay", "is for Perfetto only", next_step="leave it out, or write for Perfetto: --format perfetto"
            )
        _speedscope(paths, output, Opening(jobs=None, dask=None, no_cache=no_cache), force=force)
        return
    names = None if overlay is None else _names(overlay)
    traces = _traces(paths)
    targets = _targets(traces, output)
    for trace, target in zip(traces, targets, strict=True):
        _check(trace, target, force=force)
    for trace, target in zip(traces, targets, strict=True):
        _export(trace, target, names, Opening(jobs=None, dask=None, no_cache=no_cache))


def _speedscope(paths: tuple[str, ...], output: str | None, options: Opening, *, force: bool) -> None:
    """Write one file with the profiles of all that is named."""
    from stepscope.cli._stream import write_pieces
    from stepscope.core.paths import place
    from stepscope.export.speedscope import profiles, speedscope_file

    first = place(paths[0]) if paths[0] else Path(paths[0])
    stem = first.name.removesuffix(".gz").removesuffix(".json") or "run"
    name = f"{stem}{_SPEEDSCOPE}"
    target = (
        os.path.join(output or "", name) if not output or output.endswith(os.sep) or os.path.isdir(output) else output
    )
    for path in paths:
        _check(place(path), target, force=force)
    run = open_for(profiles, paths, options)
    found = profiles(run)
    write_pieces(speedscope_file(found, run.path), target)
    plural = "" if len(found) == 1 else "s"
    click.echo(f"wrote {target}: {len(found)} profile{plural}; open it in https://www.speedscope.app", err=True)


def _names(overlay: str) -> list[str]:
    names = [name.strip() for name in overlay.split(",") if name.strip()]
    for name in names:
        if name not in _KNOWN:
            from stepscope.cli.main import nearest

            hint = nearest(name, list(_KNOWN))
            raise BadInput("--overlay", f"there is no {name!r}", next_step=hint or f"choose from {', '.join(_KNOWN)}")
    if not names:
        raise BadInput("--overlay", "names nothing", next_step=f"choose from {', '.join(_KNOWN)}")
    return list(dict.fromkeys(names))


def _traces(words: tuple[str, ...]) -> list[AnyPath]:
    """The traces that words name: files, and those in folders and in the processes of runs."""
    from stepscope.core.paths import is_folder
    from stepscope.storage.folders import named, nothing_in

    found: dict[str, AnyPath] = {}
    paths = named([word for word in words if word])
    for path in paths:
        inside = [path]
        if is_folder(path):
            inside = [file for pattern in _TRACE_NAMES for file in path.glob(pattern) if _is_trace(file)]
            inside += [file for pattern in _TRACE_NAMES for file in path.glob(f"*/{pattern}") if _is_trace(file)]
            inside = inside or _untraced(path)
        found.update({str(file): file for file in sorted(inside, key=str)})
    if not found:
        raise nothing_in(paths) if paths else BadInput("TRACE", "is empty", next_step="name a trace")
    return list(found.values())


def _untraced(path: AnyPath) -> list[AnyPath]:
    """The processes of a run that have no trace: their folders."""
    from stepscope.core.paths import is_folder

    folders = path.glob("rank-*.pid-*") if isinstance(path, Path) else ()
    return [folder for folder in folders if is_folder(folder)]


def _is_trace(file: AnyPath) -> bool:
    from stepscope.importers import IMPORTERS, head

    try:
        start = head(file)
    except BadInput:
        return False
    return any(importer.sniff(file, start) for importer in IMPORTERS.load().values())


def _targets(traces: list[AnyPath], output: str | None) -> list[str]:
    names = [f"{trace.name.removesuffix('.gz').removesuffix('.json')}.overlay.json.gz" for trace in traces]
    if output is None or output.endswith(os.sep) or os.path.isdir(output):
        targets = [os.path.join(output or "", name) for name in names]
        if len(set(targets)) < len(targets):  # windows of several processes of a run may have one name
            named = [f"{trace.parent.name}.{name}" for trace, name in zip(traces, names, strict=True)]
            targets = [os.path.join(output or "", name) for name in named]
        return targets
    if len(traces) > 1:
        raise BadInput(
            output, f"{len(traces)} traces do not fit into one file", next_step=f"name a folder: -o {output}/"
        )
    return [output]


def _check(trace: AnyPath, target: str, *, force: bool) -> None:
    """Raise BadInput for a file that cannot or should not be written, before the work for it is done."""
    from stepscope.core.paths import is_url

    path = Path(target)
    _check_format(trace)
    if is_url(target):
        raise BadInput(target, "a trace is written to a local file only", next_step="write it here, then copy it")
    if target == "-" or (path.exists() and not path.is_file()):
        return  # a pipe or a device
    if path.suffix and not path.name.endswith(_SUFFIXES):
        known = " or ".join(_SUFFIXES)
        raise BadInput(target, f"a trace is JSON, not {path.suffix}", next_step=f"choose a name that ends in {known}")
    if isinstance(trace, Path) and path.exists() and trace.exists() and os.path.samefile(trace, path):
        raise BadInput(target, "is the trace itself", next_step="choose another file with -o")
    if path.exists() and not force:
        raise BadInput(target, "already exists", next_step="add --force to overwrite it, or choose another with -o")
    if not (path.parent.is_dir() or path.parent.parent.is_dir()):
        raise BadInput(path.parent, "there is no such folder", next_step=f"mkdir -p {path.parent}")


def _check_format(trace: AnyPath) -> None:
    """Raise BadInput for a file of another format than the one that events can be added to."""
    from stepscope.core.paths import is_folder
    from stepscope.importers import importer_of
    from stepscope.importers.kineto import IMPORTER

    if not is_folder(trace) and importer_of(trace) is not IMPORTER:
        why = "tracks can be added to traces in Chrome's JSON format only"
        raise BadInput(trace, why, next_step=f"`stepscope view {trace}` draws its timeline")


def _export(trace: AnyPath, target: str, names: list[str] | None, options: Opening) -> None:
    """Draw into one trace; `names` is None where nobody said what."""
    from stepscope.analyses.critical_path.critical_path import critical_path
    from stepscope.core.paths import is_folder
    from stepscope.export import Source, draw
    from stepscope.render.format import text

    recorded = _recorded(trace)
    run = None
    if not is_folder(trace):
        run = open_for(critical_path, cast("Sequence[str]", [trace]), options)  # the text of a URL lacks what opens it
    if names is None:
        names = [
            name for name in _KNOWN if name != "loader" or (recorded is not None and recorded.rows("loader_spans"))
        ]
    drawing = draw(Source(run, recorded), names)
    lacking: dict[str, list[str]] = {}
    for name, missing in drawing.missing.items():
        lacking.setdefault(str(missing), []).append(name)
    if not drawing.drawn:
        raise BadInput(trace, "nothing of this can be drawn", next_step="\n".join(lacking))
    sound = _write(trace, target, drawing)
    for line in drawing.told():
        click.echo(text(line), err=True)
    for why, undrawn in lacking.items():
        click.echo(f"not drawn: {', '.join(undrawn)}: {why}", err=True)
    repaired = "" if sound else ", repaired where it is damaged"
    click.echo(f"wrote {target}{repaired}: {', '.join(drawing.drawn)}; open it in https://ui.perfetto.dev", err=True)


def _write(trace: AnyPath, target: str, drawing: Drawing) -> bool:
    """Write the trace with what is drawn; false if it had to be repaired."""
    from stepscope.cli._progress import Reading
    from stepscope.cli._stream import write_pieces
    from stepscope.export import Unclear, alone, is_sound, with_overlays

    if drawing.source.trace is None:
        write_pieces(alone(drawing), target)
        return True
    sound = is_sound(drawing.source.trace)
    with Reading() as reading:
        done = partial(reading.bytes, trace.name)
        try:
            write_pieces(with_overlays(trace, drawing, sound=sound, done=done), target)
        except Unclear:
            sound = False
            write_pieces(with_overlays(trace, drawing, sound=sound, done=done), target)
    return sound


def _recorded(trace: AnyPath) -> Run | None:
    """What the process of a run recorded beside its trace; `trace` may be the folder of one without a trace."""
    from stepscope.core.importing import Sink
    from stepscope.core.paths import is_folder
    from stepscope.importers.run_dir import read_recorded

    if not isinstance(trace, Path):
        return None  # what lies beside it is not fetched
    folder, sink = Path(os.path.abspath(trace)), Sink()
    if not is_folder(folder):
        folder = folder.parent
    return sink.run(str(folder)) if read_recorded(folder, sink) else None
