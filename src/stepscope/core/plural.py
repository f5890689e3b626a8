"""The noun behind a count."""

__all__ = ["plural"]


def plural(count: float | None, noun: str, nouns: str = "") -> str:
    """`step` for 1, else `steps`; `nouns` is the plural where it is not noun + s."""
    return noun if count == 1 else nouns or f"{noun}s"
