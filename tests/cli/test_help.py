"""The help of options: one line each, short enough to be read at a glance."""

from collections.abc import Iterator

import click
import pytest

from stepscope.cli.main import COMMANDS

LONGEST = 60
"""Characters of an option's help."""


def every(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """All commands below a group, with the words that call them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from every(command, (*path, name))


OPTIONS = [
    pytest.param(option, id=" ".join((*path, option.opts[-1])))
    for path, command in every(COMMANDS)
    for option in command.params
    if isinstance(option, click.Option) and not option.hidden
]


def test_all_commands_are_walked_over() -> None:
    assert {"report --checks", "tune loader --budget", "predict --faster", "run --trace"} <= {one.id for one in OPTIONS}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_has_one_line_of_help(option: click.Option) -> None:
    assert option.help
    assert "\n" not in option.help
    assert len(option.help) <= LONGEST
    assert not option.help.endswith(".")


@pytest.mark.parametrize("name", ["report", "compare", "show", "view", "figure"])
def test_processes_that_open_ranks_are_jobs(name: str) -> None:
    command = COMMANDS.get_command(click.Context(COMMANDS), name)
    assert command is not None
    options = {flag for option in command.params for flag in option.opts}
    assert {"-j", "--jobs"} <= options
    assert "--workers" not in options
