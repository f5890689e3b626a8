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
from threading import Event, Thread
from typing import TYPE_CHECKING

from stepscope.cli._opening import Opening, open_for
from stepscope.core.errors import BadInput, SameRank, StepscopeError
from stepscope.core.memory import import_arrays
from stepscope.core.paths import shown
from stepscope.run_format.files import RUN
from stepscope.web import Opened

if TYPE_CHECKING:
    from stepscope.core.run import Run
    from stepscope.render.document import Report

__all__ = ["ReadForPage"]

Document = Mapping[str, object]
_DRAWING = 0.5  # s: what a page may take to draw the first screen, with both cores of a small machine for it
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
    _asked: Event = field(default_factory=Event)

    def opened(self) -> Opened:
        """What the server serves; all of it waits until `read` has it."""
        return Opened(
            run=lambda: self._whole.result().run() if self._whole.done() else self._run.result()(),
            document=self._document,
            first=self._first_screen,
            news=lambda: self._whole.result().news(),
            path=shown(self.paths[0]),
        )

    def read_whole(self) -> Opened:
        """Read before there is a page."""
        self._asked.set()
        self.read()
        return self.opened()

    def read(self) -> None:
        """Read the run and make its report. What is wrong is raised here, and said on the page."""
        why = StepscopeError(_STOPPED)
        try:
            self._read()
        except StepscopeError as error:
            why = error
            raise
        finally:  # after Ctrl-C, too: threads of the server wait
            for waited in (self._first, self._run, self._whole):
                if not waited.done():
                    waited.set_exception(why)

    def _first_screen(self) -> tuple[Document, bool]:
        with self._telling():
            first = self._first.result()
            return (self._whole.result().document(), True) if self._whole.done() else first

    def _document(self) -> Document:
        self._asked.set()
        with self._telling():
            return self._whole.result().document()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except StepscopeError:
            self.told.set()
            raise

    def _read(self) -> None:
        """A run folder whose job has not ended is opened again while it grows."""
        from stepscope.cli._report_cache import Later, first_of, keep_report, kept_report, place_of

        place = None if self.options.no_cache else place_of(self.paths)
        kept = kept_report(place)
        if kept is not None:
            run = Later(self._open)
            self._run.set_result(run)
            self._first.set_result((kept, True))
            self._whole.set_result(Opened(run=run, document=lambda: kept))
            return
        first = kept_report(first_of(place))
        if first is not None:
            self._first.set_result((first, False))
        import_arrays()
        Thread(target=_import_analyses, daemon=True).start()  # a trace is read by compiled code meanwhile
        opened = self._open()
        from stepscope.render.json import dumps, report_document
        from stepscope.report.assemble import assemble, first_view

        self._run.set_result(lambda: opened)
        if first is None:
            self._first.set_result((report_document(first_view(opened)), False))
        self._asked.wait(_DRAWING)
        document = report_document(assemble(opened))
        self._whole.set_result(self._followed(opened, document))
        keep_report(place, dumps(document))

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
        import_arrays()
        with _two_runs_told(self.paths):
            return open_for(_assembled, self.paths, self.options)


def _assembled(run: Run) -> Report:
    from stepscope.report.assemble import assemble  # with all analyses: not before the run is read

    return assemble(run)


def _import_analyses() -> None:
    """Import what the first screen takes. What is wrong with a module is said where it is needed."""
    from stepscope.core.boundary import attempt
    from stepscope.report.assemble import SECTIONS
    from stepscope.report.diagnose import RULES

    attempt("imports", lambda: (RULES.load(), SECTIONS.get("summary")))


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
