"""What slows the run down, largest gain first: evidence, place in the code, and the code to write instead.

Where nothing was found, the summary says so, and what was checked.
"""

from stepscope.core.report import Block, Section
from stepscope.core.run import Run
from stepscope.report.diagnose import diagnose

__all__ = ["SECTION"]


def build(run: Run) -> list[Block]:
    return list(diagnose(run).findings)


SECTION = Section(title="Findings", order=10, build=build)
