"""The source around the places of findings, from the lines that were kept with the run."""

from dataclasses import replace

from stepscope.analyses.lib.source_texts import source_around
from stepscope.core.finding import Finding, Place
from stepscope.core.run import Run

__all__ = ["with_source"]


def with_source(run: Run, finding: Finding) -> Finding:
    """The finding, each of its places with the lines around it as far as they were kept."""
    return replace(finding, where=tuple(_with_source(run, place) for place in finding.where))


def _with_source(run: Run, place: Place) -> Place:
    first, around = source_around(run, place.file, place.line)
    if not around:
        return place
    return replace(place, first=first, around=around, text=place.text or around[place.line - first].strip())
