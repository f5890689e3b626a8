"""Documents as JSON can hold them."""

import math

__all__ = ["finite"]


def finite(value: object) -> object:
    """A document with null for what JSON has no number for, and text for what it has no kind for."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: finite(item) for key, item in value.items()}
        case list() | tuple():
            return [finite(item) for item in value]
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)
