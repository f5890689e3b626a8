"""`stepscope lint`: lines of training scripts that cost time, told from their text, with what was measured there."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli._opening import Opening, open_for, opening
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepscope.lint.check import Hit
    from stepscope.lint.script import Script

__all__ = ["COMMAND"]

_FOUND = 1  # exit code, as of other linters
_SKIPPED = ("site-packages", "node_modules", "__pycache__", "build", "dist", "venv")
_EXAMPLES = """\b
Examples:
  stepscope lint train.py
  stepscope lint src/
  stepscope lint stepscope-runs/train-20260401-120000
  stepscope lint train.py --format json
"""


@click.command("lint", epilog=_EXAMPLES, short_help="Find slow lines in training scripts without running them.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", help="Output [default: text]")
@opening
def COMMAND(paths: tuple[str, ...], form: str, **words: Any) -> None:
    """Check the text of PATH: a Python file, a folder, or a run folder.

    Of a run folder the files of its job are checked, and each line is told with the time measured there, the longest
    first. A line that ends in `# stepscope: ignore` is left out. Exit code 1: something was found.
    """
    from stepscope.lint.check import hits

    found: list[tuple[Script, str, Hit, str, float]] = []
    files = 0
    for path in paths:
        is_run = (Path(path) / "run.json").exists()
        measured = _measured(path, Opening(**words)) if is_run else {}
        for script in _scripts(sorted({file for file, _ in measured}) if is_run else _files(Path(path))):
            files += 1
            rows = ((name, hit, *measured.get((script.path, hit.line), ("", 0.0))) for name, hit in hits(script))
            found += [(script, *row) for row in rows]
    found.sort(key=lambda one: -one[4])
    (_print_json if form == "json" else _print)(found, files)
    click.get_current_context().exit(_FOUND if found else 0)


def _measured(path: str, options: Opening) -> dict[tuple[str, int], tuple[str, float]]:
    """Lines of a run folder with their shares."""
    from stepscope.models.measured_lines import measured_lines

    return measured_lines(open_for(measured_lines, [path], options))


def _files(path: Path) -> list[str]:
    """Python files of a path. Raises BadInput where there is none."""
    if path.is_file():
        return [str(path)]
    if not path.is_dir():
        raise BadInput(
            path, "there is no such file or folder", next_step="give a Python file, a folder or a run folder"
        )
    own = (file for file in path.rglob("*.py") if not _foreign(file.relative_to(path)))
    found = sorted(map(str, own))
    if not found:
        raise BadInput(path, "holds no Python file", next_step="give the folder of the training script")
    return found


def _foreign(file: Path) -> bool:
    return any(part.startswith(".") or part in _SKIPPED for part in file.parts[:-1])


def _scripts(files: list[str]) -> Iterator[Script]:
    """The files that are Python; others are told on stderr."""
    from stepscope.lint.script import parsed

    for file in files:
        try:
            yield parsed(file, Path(file).read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            click.echo(f"stepscope: {file}: is not on this machine, so it was not checked", err=True)
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            click.echo(f"stepscope: {file}: cannot be read as Python: {error}", err=True)


def _print(found: list[tuple[Script, str, Hit, str, float]], files: int) -> None:
    from stepscope.render.format import counted, plain, quantity

    for script, name, hit, of, share in found:
        cost = f" ({quantity(share, 'ratio')} {of})" if of else ""
        click.echo(f"{plain(script.path, 400)}:{hit.line}:{hit.column}: {name}: {plain(hit.what, 400)}{cost}")
        click.echo(f"  fix: {plain(hit.fix, 400)}")
    told = counted(len(found), "line") if found else "No line"
    click.echo(f"{told} found in {counted(files, 'file')}.", file=sys.stderr if found else sys.stdout)


def _print_json(found: list[tuple[Script, str, Hit, str, float]], files: int) -> None:
    import json

    rows = [
        {"file": script.path, "check": name, **asdict(hit), "share": share if of else None, "of": of or None}
        for script, name, hit, of, share in found
    ]
    click.echo(json.dumps({"files": files, "found": rows}, indent=1))
