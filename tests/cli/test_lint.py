"""`stepscope lint`: files, folders and run folders; what it prints and how it ends."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepscope.cli.lint import COMMAND
from stepscope.core.errors import BadInput
from stepscope.core.synth import Synth
from stepscope.models.measured_lines import measured_lines

SLOW = "for x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n    total += loss\n"


def lint(*words: object) -> Result:
    return CliRunner().invoke(COMMAND, list(map(str, words)), catch_exceptions=False)


def test_a_line_is_told_with_its_place_and_fix(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SLOW)
    result = lint(script)
    assert result.exit_code == 1
    assert result.stdout == (
        f"{script}:4:14: losses-kept: `total += loss` keeps the graph of every step\n  fix: loss.detach()\n"
    )
    assert "1 line found in 1 file." in result.stderr


def test_a_folder_is_searched_without_what_is_installed_in_it(tmp_path: Path) -> None:
    for place in ("a/train.py", ".venv/lib/train.py", "a/site-packages/train.py"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(SLOW)
    (tmp_path / "a/fine.py").write_text("x = 1\n")
    result = lint(tmp_path, "--format", "json")
    found = json.loads(result.stdout)
    assert (found["files"], [row["check"] for row in found["found"]]) == (2, ["losses-kept"])
    assert found["found"][0]["share"] is None


def test_nothing_found(tmp_path: Path) -> None:
    (tmp_path / "fine.py").write_text("x = 1\n")
    result = lint(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "No line found in 1 file.\n")


def test_what_is_no_python_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def (\n")
    (tmp_path / "train.py").write_text(SLOW)
    result = lint(tmp_path)
    assert result.exit_code == 1
    assert "bad.py: cannot be read as Python" in result.stderr


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file or folder"):
        lint(tmp_path / "gone.py")
    with pytest.raises(BadInput, match="holds no Python file"):
        lint(tmp_path)


def test_lines_of_a_run_have_the_share_of_the_step_measured_there() -> None:
    synth = Synth()
    for step in range(5):
        synth.step(step, 100 * step, 100 * step + 100, forward=50, backward=50)
        for at, line in enumerate((4, 4, 9, 12)):
            synth.sample(step, 100 * step + 25 * at, 25, "forward", "/home/me/train.py", line)
    found = measured_lines(synth.run())
    assert found["/home/me/train.py", 4] == ("of the step", 0.5)
    assert found["/home/me/train.py", 9] == ("of the step", 0.25)
