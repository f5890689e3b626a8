"""The page that lists other tools' features names commands that exist."""

import re
from pathlib import Path

import click
import pytest

from stepscope.cli.main import COMMANDS
from stepscope.core.plugins import PluginGroup
from stepscope.core.run import Analysis
from stepscope.core.schema import TABLES

PAGES = sorted((Path(__file__).parents[1] / "docs").rglob("*.md"))
SHOWN = re.compile(r"`stepscope show ([a-z][\w-]*)")
COMMAND = re.compile(r"`stepscope ([a-z]\w*)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_analyses_and_commands_of_a_page_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tables = {*PluginGroup("analyses", Analysis).names(), *TABLES}
    assert {name.replace("_", "-") for name in SHOWN.findall(text)} <= tables
    commands = COMMANDS.list_commands(click.Context(COMMANDS))
    assert set(COMMAND.findall(text)) <= set(commands)
