"""A run that is read while its page is open already: what the page needs first is there first.

The thread that reads is that of the command, which says what is wrong; those of the server wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from threading import Event
from typing import TYPE_CHECKING

from stepscope.cli._opening import Opening, open_for
from stepscope.core.errors import BadInput, SameRank, StepscopeError
from stepscope.core.memory import polars_keeping_freed_memory
from stepscope.core.paths import shown
from stepscope.run_format.files import RUN
from stepscope.web import Opened

if TYPE_CHECKING:
    from stepscope.core.run import Run

__all__ = ["ReadForPage"]

Document = Mapping[str, object]
_STOPPED = "reading has stopped; the terminal says why"


@dataclass(frozen=True, slots=True, eq=False)
class ReadForPage:
    """What paths name, for a page; `told` is set once a page knows that it cannot be read."""

    paths: Sequence[str]
    options: Opening
    told: Event = field(default_factory=Event)
    _first: Future[tuple[Document, bool]] = field(default_factory=Future)
    _run: Future[Callable[[], Run]] = field(default_factory=Future)
    _whole: Future[Opened] = field(default_factory=Future)

    def opened(self) -> Opened:
        """What the server serves; all of it waits until `read` has it."""
        return Opened(
            run=lambda: self._whole.result().run() if self._whole.done() else self._run.result()(),
            document=lambda: self._whole.result().document(),
            first=self._first_screen,
            news=lambda: self._whole.result().news(),
            path=shown(self.paths[0]),
        )

    def read(self) -> None:
        """Read the run and make its report. What is wrong is raised here, and said on the page."""
        try:
            self._read()
        except BaseException as error:
            why = error if isinstance(error, StepscopeError) else StepscopeError(_STOPPED)
            for waited in (self._first, self._run, self._whole):
                if not waited.done():
                    waited.set_exception(why)
            raise

    def _first_screen(self) -> tuple[Document, bool]:
        try:
            return self._first.result()
        except StepscopeError:
            self.told.set()
            raise

    def _read(self) -> None:
        """A run folder whose job has not ended is opened again while it grows."""
        polars_keeping_freed_memory()
        from stepscope.cli._report_cache import Later, keep_report, kept_report, place_of
        from stepscope.render.json import dumps, report_document
        from stepscope.report.assemble import assemble, first_view

        place = None if self.options.no_cache else place_of(self.paths)
        kept = kept_report(place)
        if kept is not None:
            run = Later(lambda: open_for(assemble, self.paths, self.options))
            self._show(Opened(run=run, document=lambda: kept), kept)
            return
        opened = self._open()
        self._run.set_result(lambda: opened)
        self._first.set_result((report_document(first_view(opened)), False))
        document = report_document(assemble(opened))
        self._show(self._followed(opened, document))
        keep_report(place, dumps(document))

    def _show(self, opened: Opened, first: Document | None = None) -> None:
        if first is not None:
            self._run.set_result(opened.run)
            self._first.set_result((first, True))
        self._whole.set_result(opened)

    def _followed(self, run: Run, document: Document) -> Opened:
        from stepscope.render.json import report_document
        from stepscope.report.assemble import assemble
        from stepscope.web.following import Following, state_of

        def again() -> tuple[Run, Document]:
            newer = self._open()
            return newer, report_document(assemble(newer))

        folder = Path(self.paths[0])
        if len(self.paths) > 1 or not (folder / RUN).is_file() or state_of(folder) != "running":
            return Opened(run=lambda: run, document=lambda: document)
        following = Following(folder, again, (run, document))
        following.start()
        return Opened(run=following.run, document=following.document, news=lambda: (following.state, following.version))

    def _open(self) -> Run:
        from stepscope.report.assemble import assemble

        with _two_runs_told(self.paths):
            return open_for(assemble, self.paths, self.options)


@contextmanager
def _two_runs_told(paths: Sequence[str]) -> Iterator[None]:
    """Two files of one rank are two runs, mostly: who named them is told how to see both."""
    try:
        yield
    except SameRank as error:
        if len(paths) != 2:
            raise
        how = f"If they are two runs, compare them: `stepscope view --compare {join(paths)}`."
        raise BadInput(error.path, error.why, where=error.where, next_step=how) from error
