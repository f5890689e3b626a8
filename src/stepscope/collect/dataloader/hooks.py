"""Puts the hooks of the input pipeline into torch's DataLoader."""

from __future__ import annotations

import math
import os
import sys

from .main_process import known_hook, multiple_hooks, pin_hook, single_hook
from .overhead_budget import SHARE
from .process import Loading
from .worker import worker_hook

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["install", "install_stateful"]


def install(
    module: Any,
    run_dir: str,
    identify: Callable[[Any], int | None],
    all_batches: bool,
    lines_hz: float,
    source: bool,
) -> Loading:
    """Hook `module`, torch.utils.data.dataloader. Raises AttributeError for one of a build we do not know."""
    if lines_hz:
        from . import worker_lines  # noqa: F401  # once, and not in every worker that is forked
    loading = Loading(run_dir, identify, math.inf if all_batches else SHARE, lines_hz, source)
    os.register_at_fork(after_in_child=loading.forked)
    utils = module._utils
    replaced = _of_iterators(module._MultiProcessingDataLoaderIter, module._SingleProcessDataLoaderIter, loading)
    replaced += [
        (utils.worker, "_worker_loop", worker_hook(utils.worker._worker_loop, loading, module._DatasetKind)),
        (utils.pin_memory, "_pin_memory_loop", pin_hook(utils.pin_memory._pin_memory_loop)),
    ]
    _replace(replaced)
    return loading


def install_stateful(module: Any, loading: Loading) -> None:
    """Hook `module`, torchdata.stateful_dataloader.stateful_dataloader: its iterators and its worker loop are its own,
    fetchers and the pin-memory thread are torch's. Raises AttributeError for one of a build we do not know."""
    stateful, worker = module.StatefulDataLoader, sys.modules[module._worker_loop.__module__]
    loop = worker_hook(module._worker_loop, loading, module._DatasetKind)
    _replace(
        [
            *_of_iterators(
                module._StatefulMultiProcessingDataLoaderIter, module._StatefulSingleProcessDataLoaderIter, loading
            ),
            (module, "_worker_loop", loop),
            (worker, "_worker_loop", loop),  # where a spawned worker looks for it
            (stateful, "__iter__", known_hook(stateful.__iter__, loading)),
        ]
    )


def _of_iterators(multiple: Any, single: Any, loading: Loading) -> list[tuple[Any, str, Any]]:
    """Owner, name and hook of what is replaced in the iterators with and without workers."""
    hooks = [(multiple, name, hook) for name, hook in multiple_hooks(multiple, loading).items()]
    return [*hooks, (single, "__init__", single_hook(single.__init__, loading))]


def _replace(hooks: list[tuple[Any, str, Any]]) -> None:
    for owner, name, hook in hooks:
        setattr(owner, name, hook)
