"""`stepscope figure`: one picture of a run, or of two compared, for slides: as SVG, PNG or PDF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from stepscope.cli._opening import Opening, open_for, opening
from stepscope.cli._output import check_output, write_bytes, write_text
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepscope.core.run import Run
    from stepscope.render.svg import Picture

__all__ = ["COMMAND"]

_FORMS: dict[str, Literal["svg", "png", "pdf"]] = {"": "svg", ".svg": "svg", ".png": "png", ".pdf": "pdf"}
_SCALES = (0.1, 10)  # from a thumbnail to a poster
_EXAMPLES = """\b
Examples:
  stepscope figure --list stepscope-runs/train-20260401-120000
  stepscope figure step-times stepscope-runs/train-20260401-120000 -o steps.svg
  stepscope figure memory trace.json.gz -o memory.png --scale 3
  stepscope figure rank-steps folder-of-ranks/ -o ranks.pdf
  stepscope figure change-by-phase before/ after/ -o change.png
  stepscope figure --list --compare before/ after/
"""


@click.command("figure", epilog=_EXAMPLES, short_help="Draw one picture of a run, or of two compared, for slides.")
@click.argument("words", metavar="[NAME] PATH...", nargs=-1, required=True)
@click.option("--list", "listing", is_flag=True, help="List the figures of the run")
@click.option("--compare", is_flag=True, help="With --list: figures of two runs compared")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Output file [default: standard output]")
@click.option("--scale", metavar="N", type=click.FloatRange(*_SCALES), help="PNG pixels per unit of 960 [default: 2]")
@opening
def COMMAND(
    words: tuple[str, ...], listing: bool, compare: bool, output: str | None, scale: float | None, **options: Any
) -> None:
    """Draw a picture of the page: the mean step, all steps, memory, workers, ranks by steps, flame graphs.

    FILE ends in .svg, .png or .pdf; the last two need `pip install 'stepscope[figures]'`. PATH is what `stepscope
    report` takes. Pictures of a comparison, such as change-by-phase and interval, take two PATHs, A and B. A picture
    has its title, units and legend, on a white ground.
    """
    form = _form(output, scale)
    name, paths = ("", words) if listing else (words[0], words[1:])
    if not paths:
        raise BadInput("PATH", "no run was named", next_step=f"write `stepscope figure {name} PATH`")
    found, subjects = _drawable(name, paths, Opening(**options), compare=compare)
    if listing:
        write_text("".join(f"{known:<24} {picture.title}\n" for known, picture in found.items()), output)
        return
    if name not in found:
        raise _unknown(name, found)
    from stepscope.render.svg import svg

    drawn = svg(found[name], *subjects)
    if form == "svg":
        write_text(drawn, output)
        return
    from stepscope.render.figures import SCALE, raster

    write_bytes(raster(drawn, found[name].title, form, scale or SCALE), output)


def _drawable(
    name: str, paths: Sequence[str], options: Opening, *, compare: bool
) -> tuple[Mapping[str, Picture], tuple[str, ...]]:
    """Pictures by name, and what they are of."""
    from stepscope.compare.pictures import is_name

    if not (compare or is_name(name)):
        run = open_for(_pictures, paths, options)
        return _pictures(run), (run.path,)
    if len(paths) != 2:
        raise BadInput(
            name or "--compare", f"is of two runs, A and B, and {len(paths)} PATHs were named",
            next_step=f"write `stepscope figure {name or '--list --compare'} A B`",
        )  # fmt: skip
    from stepscope.compare.comparison import compare as compared
    from stepscope.compare.page import page_of
    from stepscope.compare.pictures import pictures_of
    from stepscope.compare.run_summary import measure

    a, b = (measure(open_for(measure, (path,), options)) for path in paths)
    return pictures_of(page_of(compared(a, b))), (f"A: {a.path}", f"B: {b.path}")


def _pictures(run: Run) -> dict[str, Picture]:
    """The pictures of all sections, named for the section; from its second one on with a number."""
    from stepscope.core.report import Bars, Flame, Heatmap, Lanes, Lines
    from stepscope.report.assemble import assemble

    found: dict[str, Picture] = {}
    for part in assemble(run).parts:
        drawn = [block for block in part.blocks if isinstance(block, Bars | Lines | Heatmap | Lanes | Flame)]
        for number, block in enumerate(drawn, start=1):
            found[part.name if number == 1 else f"{part.name}-{number}"] = block
    return found


def _form(output: str | None, scale: float | None) -> Literal["svg", "png", "pdf"]:
    """The format that the name of the file means. Raises BadInput before any work is done."""
    suffix = Path(output).suffix.lower() if output else ""
    form = _FORMS.get(suffix)
    if form is None:
        known = "choose a name that ends in .svg, .png or .pdf"
        raise BadInput(output, f"a picture is SVG, PNG or PDF, not {suffix}", next_step=known)
    if scale is not None and form != "png":
        raise BadInput(
            "--scale", f"is for PNG; {form.upper()} has no pixels", next_step="leave it out, or write a .png"
        )
    check_output(output)
    if form != "svg":
        from stepscope.render.figures import check_installed

        check_installed(form, str(output))
    return form


def _unknown(name: str, found: Mapping[str, Picture]) -> BadInput:
    from stepscope.cli.main import nearest

    if not found:
        return BadInput(name, "this run has no pictures", next_step="`stepscope report PATH` tells what it lacks")
    hint = nearest(name, list(found)) or f"it has {', '.join(found)}"
    return BadInput(name, "this run has no picture of that name", next_step=hint)
