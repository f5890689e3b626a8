"""Names of rules and analyses as people type them: dashes or underscores, completed, and corrected when misspelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from stepscope.cli.main import nearest
from stepscope.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem

    from stepscope.core.plugins import PluginGroup

__all__ = ["checked_name", "completion_of", "first_line"]


def checked_name(group: PluginGroup[Any], name: str, listing: str) -> str:
    """The plugin's name. Raises BadInput with the nearest name; `listing` is the command that lists them."""
    names = group.names()
    wanted = name.replace("_", "-")
    if wanted in names:
        return wanted
    kind = {"analyses": "analysis", "rules": "rule"}.get(group.package, group.package)
    hint = _of_the_other_kind(group, wanted) or nearest(name, names)
    raise BadInput(name, f"there is no such {kind}", next_step=f"{hint} `{listing}` lists them all".strip())


def _of_the_other_kind(group: PluginGroup[Any], name: str) -> str:
    """The command to use if a rule is asked for as an analysis, or the other way round."""
    from stepscope.core.plugins import PluginGroup

    if group.package == "analyses" and name in PluginGroup("rules", object).names():
        return f"it is a rule: `stepscope explain {name}`."
    if group.package == "rules" and name in PluginGroup("analyses", object).names():
        return f"it is an analysis: `stepscope show {name.replace('-', '_')} PATH`."
    return ""


def completion_of(group: Callable[[], PluginGroup[Any]], *, dashes: bool) -> Callable[..., list[CompletionItem]]:
    """A callback that completes the names of plugins; `group` imports them when it is called."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        names = (name if dashes else name.replace("-", "_") for name in group().names())
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


def first_line(page: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(page.strip().split("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return sentence + ("." if stop else "")
