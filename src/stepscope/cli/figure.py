"""`stepscope figure`: one picture of a run for slides, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepscope.cli._opening import Opening, open_for, opening
from stepscope.cli._output import check_output, write_text
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from stepscope.core.run import Run
    from stepscope.render.svg import Picture

__all__ = ["COMMAND"]

_EXAMPLES = """\b
Examples:
  stepscope figure --list stepscope-runs/train-20260401-120000
  stepscope figure step-times stepscope-runs/train-20260401-120000 -o steps.svg
  stepscope figure memory trace.json.gz > memory.svg
  stepscope figure rank-steps folder-of-ranks/ -o ranks.svg
"""


@click.command("figure", epilog=_EXAMPLES, short_help="Draw one picture of a run, for slides.")
@click.argument("words", metavar="[NAME] PATH...", nargs=-1, required=True)
@click.option("--list", "listing", is_flag=True, help="Name the pictures that the run has.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write here instead of standard output.")
@opening
def COMMAND(words: tuple[str, ...], listing: bool, output: str | None, **options: Any) -> None:
    """Draw a picture of the page as SVG: the mean step, all steps, memory, workers, ranks by steps, flame graphs.

    PATH is what `stepscope report` takes. A picture has its title, units and legend, and is light.
    """
    _check(output)
    name, paths = ("", words) if listing else (words[0], words[1:])
    if not paths:
        raise BadInput("PATH", "no run was named", next_step=f"write `stepscope figure {name} PATH`")
    from stepscope.render.svg import svg

    run = open_for(_pictures, paths, Opening(**options))
    found = _pictures(run)
    if listing:
        write_text("".join(f"{known:<20} {picture.title}\n" for known, picture in found.items()), output)
        return
    if name not in found:
        raise _unknown(name, found)
    write_text(svg(found[name], run.path), output)


def _pictures(run: Run) -> dict[str, Picture]:
    """The pictures of all sections, named for the section; from its second one on with a number."""
    from stepscope.cli._assemble import assemble
    from stepscope.core.report import Bars, Flame, Heatmap, Lanes, Lines

    found: dict[str, Picture] = {}
    for part in assemble(run).parts:
        drawn = [block for block in part.blocks if isinstance(block, Bars | Lines | Heatmap | Lanes | Flame)]
        for number, block in enumerate(drawn, start=1):
            found[part.name if number == 1 else f"{part.name}-{number}"] = block
    return found


def _check(output: str | None) -> None:
    suffix = Path(output).suffix.lower() if output else ""
    if suffix in (".png", ".pdf"):
        svg_file = str(Path(output or "").with_suffix(".svg"))
        raise BadInput(
            output, f"a picture is written as SVG, not {suffix}",
            next_step=f"write {svg_file}, then `rsvg-convert -f {suffix[1:]} -o {output} {svg_file}`",
        )  # fmt: skip
    if suffix not in ("", ".svg"):
        raise BadInput(output, f"a picture is SVG, not {suffix}", next_step="choose a name that ends in .svg")
    check_output(output)


def _unknown(name: str, found: dict[str, Picture]) -> BadInput:
    from stepscope.cli.main import nearest

    if not found:
        return BadInput(name, "this run has no pictures", next_step="`stepscope report PATH` tells what it lacks")
    hint = nearest(name, list(found)) or f"it has {', '.join(found)}"
    return BadInput(name, "this run has no picture of that name", next_step=hint)
