"""Plugins of other distributions are found by their entry points, in a real process with a real distribution."""

import subprocess
import sys
from pathlib import Path

import pytest

ANALYSIS = '''"""Nothing, as a table.

One row is nothing."""

import polars as pl

from stepscope.core.run import Analysis
from stepscope.core.schema import Column

COLUMNS = (Column("nothing", pl.Int64, None, "nothing"),)
ANALYSIS = Analysis(compute=lambda run: pl.DataFrame(schema={"nothing": pl.Int64}), columns=COLUMNS)
'''


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder with an installed distribution that brings one analysis, `nothing`."""
    (tmp_path / "nothing.py").write_text(ANALYSIS)
    about = tmp_path / "nothing-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nothing\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stepscope.analyses]\nnothing = nothing:ANALYSIS\n")
    return tmp_path


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


GROUP = """
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis
g = PluginGroup("analyses", Analysis)
"""


def test_an_installed_analysis_is_one_among_the_others(elsewhere: Path) -> None:
    code = "print('nothing' in g.load(), 'steps' in g.load(), g.get('nothing').columns[0].name, g.page('nothing')[:7])"
    done = python(elsewhere, GROUP + code)
    assert (done.stdout.split(), done.stderr) == (["True", "True", "nothing", "Nothing"], "")


def test_a_plugin_may_not_take_the_name_of_a_built_in_one(elsewhere: Path) -> None:
    (elsewhere / "nothing-1.0.dist-info" / "entry_points.txt").write_text(
        "[stepscope.analyses]\nsteps = nothing:ANALYSIS\n"
    )
    done = python(elsewhere, GROUP + "g.get('steps')")
    assert "nothing:ANALYSIS redefines the built-in analyses plugin 'steps'" in done.stderr


def below_rules(folder: Path) -> str:
    """What discovery says where `folder` is one more folder of rules."""
    code = f"""
import stepscope.rules
from stepscope.core.plugins import PluginGroup
from stepscope.core.finding import Rule
stepscope.rules.__path__.append({str(folder)!r})
sys.modules["stepscope.rules.frames"] = stepscope.rules
PluginGroup("rules", Rule).load()
"""
    return python(folder, code).stderr


def test_a_folder_that_is_no_package_is_told(tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    (tmp_path / "topic" / "some_rule.py").touch()
    assert f"add {tmp_path}/topic/__init__.py" in below_rules(tmp_path)


def test_a_module_without_its_constant_is_told_where_shared_code_belongs(tmp_path: Path) -> None:
    (tmp_path / "frames.py").touch()
    error = below_rules(tmp_path)
    assert "stepscope.rules.frames must assign RULE = Rule(...)" in error
    assert "belongs in a folder lib/" in error


def test_an_unknown_name() -> None:
    done = python(Path(), GROUP + "g.get('no-such')")
    assert "KeyError: 'no-such'" in done.stderr
