"""Source lines for call sites of a trace, which holds none: samples of the same run have seen many of them."""

import re
from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from stepscope.analyses.lib.call_sites import CallSite
from stepscope.core.run import Run

__all__ = ["with_texts"]

_SAMPLED = re.compile(r"(?P<file>.*):(?P<line>\d{1,9}) .*", re.DOTALL)
Texts = dict[tuple[str, int], list[tuple[str, str]]]  # file and source line, by the file's name and line number


def with_texts(run: Run, sites: Iterable[CallSite]) -> list[CallSite]:
    """The sites, each with its source line where a sample has seen it."""
    texts = run.once(_texts)
    return [_with_text(site, texts) for site in sites]


def _texts(run: Run) -> Texts:
    stacks = run.optional("stacks", "frames", "texts").drop_nulls().unique()
    whole = stacks.filter(pl.col("frames").list.len() == pl.col("texts").list.len())
    texts: Texts = {}
    for frame, text in whole.explode("frames", "texts").unique().sort("frames", "texts").drop_nulls().iter_rows():
        match = _SAMPLED.fullmatch(frame)
        if match and text:
            texts.setdefault((_name(match["file"]), int(match["line"])), []).append((match["file"], text))
    return texts


def _with_text(site: CallSite, texts: Texts) -> CallSite:
    """Profilers cut the front of a path off, so the ends of the two paths must agree."""
    if site.file is None or site.line is None:
        return site
    end = site.file.replace("\\", "/")
    seen = texts.get((_name(end), site.line), ())
    text = next((text for file, text in seen if f"/{file}".endswith(f"/{end}")), None)
    return replace(site, text=text)


def _name(file: str) -> str:
    return file.rpartition("/")[2]
