"""Advice that more than one rule about the input pipeline gives."""

from stepscope.core.finding import Advice

__all__ = ["DRAFT", "UNORDERED"]

DRAFT = 'picture.draft("RGB", (2 * size, 2 * size))  # Pillow, JPEG: before anything asks for pixels'
"""Decoding at about the size that is needed."""

UNORDERED = Advice(
    text="If the order of the batches does not matter, take what is ready (torch 2.6 and later)",
    code="DataLoader(..., in_order=False)",
)
