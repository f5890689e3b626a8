"""Source lines for call sites: those that were kept with the run, and those that samples of the same run have seen.

A trace holds no source.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

import polars as pl

from stepscope.analyses.lib.call_sites import CallSite
from stepscope.core.run import Run

__all__ = ["SAMPLED_FRAME", "source_around", "source_line", "with_texts"]

AROUND = 2  # lines before and after a place that are shown: as many as a run keeps

SAMPLED_FRAME = re.compile(r"(?P<file>.*):(?P<line>\d{1,9}) (?P<function>.*)", re.DOTALL)
"""A frame of a sample: file:line function."""

Files = Mapping[str, Mapping[str, Mapping[int, str]]]  # by the file's name: by file, its lines by number


def with_texts(run: Run, sites: Iterable[CallSite]) -> list[CallSite]:
    """The sites, each with its source line where that is known."""
    kept, seen = run.once(_kept), run.once(_seen)
    return [_with_text(site, kept, seen) for site in sites]


def source_around(run: Run, file: str, line: int) -> tuple[int, tuple[str, ...]]:
    """The lines around one as they were written, and the number of the first; none where they were not kept."""
    lines = _lines_of(run.once(_kept), file)
    if line not in lines:
        return 0, ()
    first = last = line
    while first - 1 in lines and first > line - AROUND:
        first -= 1
    while last + 1 in lines and last < line + AROUND:
        last += 1
    return first, tuple(lines[number] for number in range(first, last + 1))


def source_line(run: Run, file: str, line: int) -> str:
    """A line as it was written; empty where it was not kept."""
    first, lines = source_around(run, file, line)
    return lines[line - first] if lines else ""


def _kept(run: Run) -> Files:
    files: dict[str, dict[str, dict[int, str]]] = {}
    rows = run.optional("sources", "file", "line", "text").drop_nulls().sort("file", "line")
    for file, line, text in rows.iter_rows():
        files.setdefault(_name(file), {}).setdefault(file, {})[line] = text
    return files


def _seen(run: Run) -> Files:
    stacks = run.optional("stacks", "frames", "texts").drop_nulls().unique()
    whole = stacks.filter(pl.col("frames").list.len() == pl.col("texts").list.len())
    files: dict[str, dict[str, dict[int, str]]] = {}
    for frame, text in whole.explode("frames", "texts").unique().sort("frames", "texts").drop_nulls().iter_rows():
        match = SAMPLED_FRAME.fullmatch(frame)
        if match and text:
            lines = files.setdefault(_name(match["file"]), {}).setdefault(match["file"], {})
            lines.setdefault(int(match["line"]), text)
    return files


def _with_text(site: CallSite, *known: Files) -> CallSite:
    if site.file is None or site.line is None:
        return site
    texts = (_lines_of(files, site.file).get(site.line) for files in known)
    return replace(site, text=next((text.strip() for text in texts if text is not None), None))


def _lines_of(files: Files, file: str) -> Mapping[int, str]:
    """Profilers cut the front of a path off, so the ends of the two paths must agree."""
    end = file.replace("\\", "/")
    alike = files.get(_name(end), {})
    if file in alike:
        return alike[file]
    for known, lines in alike.items():
        if f"/{known}".endswith(f"/{end}"):
            return lines
    return {}


def _name(file: str) -> str:
    return file.rpartition("/")[2]
