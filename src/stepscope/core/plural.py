"""The noun behind a count."""

__all__ = ["plural"]


def plural(count: float | None, noun: str, nouns: str = "") -> str:
    """`step` for 1, and for a mean that is printed as 1, else `steps`; `nouns` is the plural unless it is noun + s."""
    return noun if count is not None and f"{count:.3g}" == "1" else nouns or f"{noun}s"
