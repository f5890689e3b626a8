"""Puts the hooks of the input pipeline into torch's DataLoader."""

from __future__ import annotations

import math
import os

from .fetching import fetch_hook
from .process import Loading
from .receiving import multiple_hooks, pin_hook, single_hook
from .spans import SHARE
from .worker import worker_hook

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["install"]


def install(
    module: Any, run_dir: str, identify: Callable[[Any], int | None], all_batches: bool, lines_hz: float
) -> None:
    """Hook `module`, torch.utils.data.dataloader. Raises AttributeError for one of a build we do not know."""
    if lines_hz:
        from . import lines  # noqa: F401  # once, and not in every worker that is forked
    loading = Loading(run_dir, identify, math.inf if all_batches else SHARE, lines_hz)
    os.register_at_fork(after_in_child=loading.forked)
    utils, multiple, single = module._utils, module._MultiProcessingDataLoaderIter, module._SingleProcessDataLoaderIter
    replaced = [(multiple, name, hook) for name, hook in multiple_hooks(multiple, loading).items()]
    replaced += [
        (single, "__init__", single_hook(single.__init__, loading)),
        (utils.worker, "_worker_loop", worker_hook(utils.worker._worker_loop, loading, module._DatasetKind)),
        (utils.pin_memory, "_pin_memory_loop", pin_hook(utils.pin_memory._pin_memory_loop)),
    ]
    replaced += [
        (fetcher, "fetch", fetch_hook(fetcher.fetch))
        for fetcher in (utils.fetch._MapDatasetFetcher, utils.fetch._IterableDatasetFetcher)
    ]
    for owner, name, hook in replaced:
        setattr(owner, name, hook)
