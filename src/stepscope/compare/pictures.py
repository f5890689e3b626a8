"""The pictures of a comparison by the names that `stepscope figure` takes."""

from dataclasses import replace

from stepscope.core.report import Interval, Table
from stepscope.render.document import Page

__all__ = ["NAMES", "is_name", "pictures_of"]

INTERVAL = "interval"
_CHANGE = "change-by-"
_OF = {
    "device": "device-part", "breakdown": "kind-of-work", "calls-on-the-device": "call",
    "calls-on-the-host": "host-call", "kinds-of-kernels": "kind-of-kernel", "kernels": "kernel",
    "operators-on-the-device": "operator", "operators-on-the-host": "operator",
    "modules-by-class,-on-the-device": "module", "modules-by-class,-on-the-host": "module",
    "annotations": "annotation", "collectives": "collective",
}  # fmt: skip
NAMES = (INTERVAL, *dict.fromkeys(f"{_CHANGE}{what}" for what in ("phase", *_OF.values())))
"""All names there can be; a comparison has those of which both runs recorded something."""


def is_name(name: str) -> bool:
    """Whether a name is one of a picture of a comparison."""
    return name in NAMES or name.startswith(_CHANGE)


def pictures_of(page: Page) -> dict[str, Interval | Table]:
    """The interval, and each table of changes; what divides the steps on the first screen is named by its parts."""
    found: dict[str, Interval | Table] = {}
    for part in page.parts:
        for block in part.blocks:
            if isinstance(block, Interval):
                found.setdefault(INTERVAL, block)
            elif isinstance(block, Table) and block.change is not None and block.rows:
                name = _OF.get(part.name, "phase")
                title = "Change of the step" if name == "phase" else f"{part.title}: change from A to B"
                found.setdefault(f"{_CHANGE}{name}", replace(block, title=title))
    return found
