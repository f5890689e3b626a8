"""`stepscope figure`: pictures by name."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from ..command import printed, stepscope
from .test_opening import write


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
        (["step-times", "run", "-o", "x.png"], "write x.svg, then `rsvg-convert -f png -o x.png x.svg`"),
        (["step-times", "run", "-o", "x.jpg"], "choose a name that ends in .svg"),
        (["step-times"], "write `stepscope figure step-times PATH`"),
    ],
)
def test_what_cannot_be_written_says_what_to_do(words: list[str], message: str) -> None:
    done = stepscope("figure", *words)
    assert done.returncode == 2
    assert message in done.stderr
