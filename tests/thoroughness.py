"""How much of what is drawn at random a run of the tests tries: some in the gate, more with STEPSCOPE_THOROUGH=1."""

import os

__all__ = ["THOROUGH", "tries"]

THOROUGH = os.environ.get("STEPSCOPE_THOROUGH", "") not in ("", "0")


def tries(gate: int, thorough: int) -> int:
    """How many to try: `gate` of them, or `thorough` where that is asked for."""
    return thorough if THOROUGH else gate
