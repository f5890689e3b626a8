"""Pictures as PNG and PDF. Typst draws them from SVG: a wheel, no browser, with a font where the system has none."""

from importlib.util import find_spec
from typing import Literal

from stepscope.core.errors import BadInput

__all__ = ["SCALE", "check_installed", "raster"]

SCALE = 2.0
"""Pixels of a PNG for each of the picture's: 1,920 across, as wide as a slide on a common screen."""

_PPI = 96  # at which a pixel of SVG is a pixel
_PAGE = b"""#set document(title: sys.inputs.title)
#set page(width: auto, height: auto, margin: 0pt)
#image(bytes(sys.inputs.svg), format: "svg", alt: sys.inputs.title)"""


def check_installed(form: str, output: str) -> None:
    """Raise BadInput where Typst is missing, before the work for the picture is done."""
    try:
        found = find_spec("typst")
    except ValueError:  # somebody took it out of this process
        found = None
    if found is None:
        raise BadInput(
            output, f"drawing {form.upper()} needs the package typst, which is not installed",
            next_step="pip install 'stepscope[figures]', or choose a name that ends in .svg",
        )  # fmt: skip


def raster(svg: str, title: str, form: Literal["png", "pdf"], scale: float = SCALE) -> bytes:
    """A picture in SVG as PNG, or as PDF with text as text."""
    import typst

    inputs = {"svg": svg, "title": title}
    made = typst.compile(_PAGE, format=form, ppi=_PPI * scale, sys_inputs=inputs)
    assert isinstance(made, bytes), "a picture is one page"
    return made
