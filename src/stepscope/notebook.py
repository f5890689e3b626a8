"""A run in a notebook: `stepscope.open(PATH)` shows the page in the cell.

The page is the single file of `stepscope report --format html`, in a frame that may run scripts and nothing else: it
reaches neither the notebook nor the network.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stepscope.core.errors import BadInput
from stepscope.core.run import Run
from stepscope.render.document import Report
from stepscope.render.format import plain
from stepscope.render.html import report_html
from stepscope.render.verdict import sentence
from stepscope.report.assemble import assemble
from stepscope.storage import open_run
from stepscope.timeline import excerpt

__all__ = ["RunPage", "open"]

_HEIGHT = 800  # px: a screen of a laptop below the bars of a notebook


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run that was opened; a notebook shows it as the page. `report` is what the page says, as plain data."""

    run: Run
    report: Report
    height: int = _HEIGHT

    def __repr__(self) -> str:
        return f"{plain(self.run.path)}: {sentence(self.report.verdict)}"

    def _repr_html_(self) -> str:
        try:
            page = report_html(self.report, excerpt(self.run))
        except BadInput as error:
            return f"<pre>{escape(str(error))}</pre>"
        style = "width: 100%; border: 1px solid #d9dde3"
        return (
            f'<iframe sandbox="allow-scripts" title="{escape(repr(self))}" height="{self.height}" style="{style}" '
            f'srcdoc="{escape(page)}"></iframe>'
        )


def open(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, height: int = _HEIGHT) -> RunPage:
    """What `stepscope report` reads: a run folder, a trace, a folder of ranks, or several of them.

    `height` is that of the page in the notebook, in pixels. Raises BadInput, which says what to do.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else path
    run = open_run([os.fspath(one) for one in paths])
    return RunPage(run, assemble(run), height)
