"""Advice that more than one rule about the input pipeline gives."""

from stepscope.core.finding import Advice

__all__ = ["DRAFT", "UNORDERED", "WHOLE_BATCHES"]

DRAFT = 'picture.draft("RGB", (2 * size, 2 * size))  # Pillow, JPEG: before anything asks for pixels'
"""Decoding at about the size that is needed."""

WHOLE_BATCHES = """\
# dataset[[3, 1, 2]] must return a batch
sampler = BatchSampler(RandomSampler(dataset), batch_size, drop_last=False)
DataLoader(dataset, sampler=sampler, batch_size=None)"""
"""One call of the data set for each batch."""

UNORDERED = Advice(
    text="If the order of the batches does not matter, take what is ready (torch 2.6 and later)",
    code="DataLoader(..., in_order=False)",
)
