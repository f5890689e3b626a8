"""`stepscope figure`: pictures by name."""

import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ..command import printed, stepscope
from .test_compare import trace
from .test_opening import write

pytestmark = pytest.mark.slow


def test_pictures_are_listed_and_written(tmp_path: Path) -> None:
    write(tmp_path, 2)
    listed = [line.split()[0] for line in printed("figure", "--list", tmp_path).splitlines()]
    assert listed
    file = tmp_path / "picture.svg"
    assert printed("figure", listed[0], tmp_path, "-o", file) == ""
    assert ElementTree.parse(file).getroot().tag.endswith("svg")
    done = stepscope("figure", f"{listed[0]}x", tmp_path)
    assert done.returncode == 2
    assert f"did you mean {listed[0]}?" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["step-times", "run", "-o", "x.jpg"], "choose a name that ends in .svg, .png or .pdf"),
        (["step-times", "run", "-o", "x.pdf", "--scale", "3"], "--scale: is for PNG; PDF has no pixels"),
        (["interval", "run"], "write `stepscope figure interval A B`"),
        (["change-by-phase", "a", "b", "c"], "is of two runs, A and B, and 3 PATHs were named"),
        (["step-times"], "write `stepscope figure step-times PATH`"),
    ],
)
def test_what_cannot_be_written_says_what_to_do(words: list[str], message: str) -> None:
    done = stepscope("figure", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_pictures_are_written_as_png_and_pdf(tmp_path: Path) -> None:
    write(tmp_path, 2)
    png, small, pdf = (tmp_path / name for name in ("x.png", "small.PNG", "x.pdf"))
    assert printed("figure", "step-times", tmp_path, "-o", png) == ""
    assert printed("figure", "step-times", tmp_path, "-o", small, "--scale", "0.5") == ""
    assert printed("figure", "step-times", tmp_path, "-o", pdf) == ""
    assert [int.from_bytes(file.read_bytes()[16:20]) for file in (png, small)] == [1920, 480]
    assert pdf.read_bytes().startswith(b"%PDF-")


def test_where_the_package_is_missing_its_name_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['typst'] = None\n")
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    done = stepscope(
        "figure", "step-times", tmp_path / "nothing", "-o", "x.png", env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 2
    assert "x.png: drawing PNG needs the package typst, which is not installed" in done.stderr
    assert "pip install 'stepscope[figures]', or choose a name that ends in .svg" in done.stderr


def test_pictures_of_two_runs_compared(tmp_path: Path) -> None:
    a, b = trace(tmp_path / "a.json", 1000), trace(tmp_path / "b.json", 500)
    listed = [line.split()[0] for line in printed("figure", "--list", "--compare", a, b).splitlines()]
    assert {"interval", "change-by-phase", "change-by-operator"} <= set(listed)
    drawn = printed("figure", "change-by-operator", a, b)
    assert ">A: " in drawn and "a.json, B: " in drawn and "b.json</text>" in drawn
    assert ">aten::mm<" in drawn and ">\u2212250 µs faster<" in drawn
    file = tmp_path / "interval.pdf"
    assert printed("figure", "interval", a, b, "-o", file) == ""
    assert file.read_bytes().startswith(b"%PDF-")
    done = stepscope("figure", "change-by-kernel", a, b)
    assert done.returncode == 2 and "no picture of that name" in done.stderr
