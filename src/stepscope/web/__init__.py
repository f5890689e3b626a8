"""The server behind `stepscope view`: the app, the report as JSON, and every table.

Each module of `routes` adds what the server answers; there is no list to edit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from stepscope.core.run import Run  # the server starts before all that reads runs is imported

__all__ = ["Opened", "Routes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What is served: `run` gives the run as it is now, `document` the JSON of its report.

    Each may wait until it is there, and raises a StepscopeError if it cannot be. `first` gives what the first screen
    shows, and whether that is the whole document, where it is there earlier.

    `news` says how the job stands (running, ended, died; past: it was over before) and which version of both this is.
    With `beside`, the document is of several runs, which are served too: by the first part of their addresses. `path`
    says which run it is. `compare` gives the document that compares two of those beside, by their names.
    """

    run: Callable[[], Run]
    document: Callable[[], Mapping[str, object]]
    first: Callable[[], tuple[Mapping[str, object], bool]] | None = None
    news: Callable[[], tuple[str, int]] = lambda: ("past", 1)
    path: str = ""
    beside: Mapping[str, Opened] = field(default_factory=dict)
    compare: Callable[[str, str], Mapping[str, object]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """What a module answers, for what was opened. Its functions may run in several threads at once.

    `of_one_run`: only where one run is what is shown.
    """

    make: Callable[[Opened], list[BaseRoute]]
    of_one_run: bool = True
