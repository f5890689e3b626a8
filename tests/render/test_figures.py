"""Pictures as PNG and PDF: their sizes, and words that stand in them."""

import io
import shutil
import subprocess

import pytest
from PIL import Image
from pypdf import PdfReader

from stepscope.core.report import Bar, Bars, Interval, Table
from stepscope.render.figures import raster
from stepscope.render.svg import Picture, svg

MS = 1_000_000
STEP = Bars("Mean step, µs × − →", "ns", (Bar("data wait", 3 * MS), Bar("模块", 1 * MS)))
CHANGES = Table(
    "Change of the step", (("phase", None), ("A", "ns"), ("B", "ns"), ("B - A", "ns")),
    (("data wait", 30 * MS, 10 * MS, -20 * MS), ("forward", 10 * MS, 15 * MS, 5 * MS)), change=3,
)  # fmt: skip
SPEED = Interval(
    "Speed of B over A", 1.2, 1.1, 1.3, "faster", "A difference: the whole interval is above 1.", (0.9, 1.6)
)
BLUE, ORANGE = (0, 0x72, 0xB2), (0xC2, 0x57, 0)


def words_of(pdf: bytes) -> str:
    (page,) = PdfReader(io.BytesIO(pdf)).pages
    return str(page.extract_text())


def test_a_png_has_the_size_of_the_scale_and_what_the_svg_has() -> None:
    drawn = svg(CHANGES, "a run")
    height = float(drawn.partition('height="')[2].partition('"')[0])
    for scale in (1, 2.5):
        made = raster(drawn, "Change", "png", scale)
        assert made.startswith(b"\x89PNG\r\n\x1a\n")
        image = Image.open(io.BytesIO(made)).convert("RGB")
        assert image.size == (960 * scale, round(height * scale))
        assert image.getpixel((2, 2)) == (255, 255, 255)
        colors = {color: count for count, color in image.getcolors(2**24) or ()}
        assert colors[BLUE] == pytest.approx(4 * colors[ORANGE], rel=0.05)
        assert colors[BLUE] == pytest.approx(155 * 14 * scale**2, rel=0.05)


def has_chinese_font() -> bool:
    """Whether fontconfig knows one; without fontconfig typst looks in the same places."""
    listed = shutil.which("fc-list")
    return listed is not None and bool(subprocess.run([listed, ":lang=zh"], capture_output=True, check=True).stdout)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (STEP, ["Mean step, µs × − →", "data wait 75 %, 3 ms", "模块 25 %, 1 ms"]),
        (CHANGES, ["−20 ms faster", "+5 ms slower", "30 ms → 10 ms"]),
        (SPEED, ["1.2× (95 % interval 1.1–1.3)", "A difference: the whole interval is above 1."]),
    ],
)
def test_a_pdf_has_one_page_with_text_as_text(picture: Picture, words: list[str]) -> None:
    if "模块" in "".join(words) and not has_chinese_font():
        pytest.skip("needs a font with Chinese characters (./check installs fonts-wqy-zenhei)")
    made = raster(svg(picture, "a run"), picture.title, "pdf")
    assert made.startswith(b"%PDF-")
    told = words_of(made)
    for some in words:
        assert "".join(some.split()) in "".join(told.split())
    reader = PdfReader(io.BytesIO(made))
    assert reader.metadata and reader.metadata.title == picture.title
    assert reader.pages[0].mediabox.width == 720  # points: 960 px
