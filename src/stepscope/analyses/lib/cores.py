"""How many cores the job may use."""

import json

from stepscope.core.run import Run

__all__ = ["job_cores"]


def job_cores(run: Run) -> float | None:
    """Cores the job may use, from affinity and control group, as the launcher wrote them."""
    for key, value in run.optional("meta").select("key", "value").iter_rows():
        if key in ("cores", "effective_cores", "cores.effective") and value:
            parsed = json.loads(value)
            found = parsed.get("effective") if isinstance(parsed, dict) else parsed
            return float(found) if isinstance(found, int | float) else None
    return None
