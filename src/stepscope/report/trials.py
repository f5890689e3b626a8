"""The command that tries the advice of a finding: loader settings can be tried without touching the script."""

import re
from dataclasses import replace
from shlex import join

from stepscope.core.finding import Finding

__all__ = ["with_trial"]

_TUNED = re.compile(r"\b(num_workers|prefetch_factor|persistent_workers|pin_memory)=")
"""Settings that `stepscope tune loader` tries, in the first advice of a finding."""


def with_trial(finding: Finding, command: tuple[str, ...] | None) -> Finding:
    """The finding with a command that tries its first advice, where there is one and it names none."""
    first = finding.advice[:1]
    if finding.trial or not command or not any(_TUNED.search(f"{advice.text} {advice.code}") for advice in first):
        return finding
    return replace(finding, trial=f"stepscope tune loader -- {join(command)}")
