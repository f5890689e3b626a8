"""What the job trains with: loaders, optimizer, torch, distribution, as plain dictionaries of JSON values."""

from __future__ import annotations

import os
import sys

from .secrets import redacted

TYPE_CHECKING = False  # the typing module costs the job's start milliseconds
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "PLACES",
    "class_place",
    "distributed",
    "function_place",
    "loader",
    "name_of",
    "optimizer",
    "plain_function",
    "process",
    "torch_settings",
]

PLACES = ("dataset", "collate", "made", "break")
"""Of a loader, or of compiled code: what has a file and a line."""

_OPTIMIZER_OPTIONS = ("foreach", "fused", "capturable", "differentiable", "amsgrad", "maximize")
_WRAPPERS = 8  # Subset of Subset of ...: enough for any script, and a bound for a cycle


def loader(identifier: int, source: Any) -> dict[str, Any]:
    """One DataLoader, or the iterator of one that was made behind our back; what it does not say is null."""
    dataset = _either(source, "dataset")
    while type(dataset).__name__ == "Subset" and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    collate = _either(source, "collate_fn")
    sampler = getattr(source, "sampler", None)
    dataset_file, dataset_line = class_place(type(dataset))
    collate_file, collate_line = function_place(collate)
    made_file, made_line, made_by = getattr(source, "_stepscope_made", (None, None, None))
    return {
        "kind": "loader",
        "id": identifier,
        "class": name_of(type(source)),
        "dataset": name_of(type(dataset)),
        "dataset_file": dataset_file,
        "dataset_line": dataset_line,
        "batch_size": batch_size(source),
        "num_workers": _either(source, "num_workers"),
        "pin_memory": _either(source, "pin_memory"),
        "prefetch_factor": _either(source, "prefetch_factor"),
        "persistent_workers": _either(source, "persistent_workers"),
        "collate": name_of(plain_function(collate)) if collate is not None else None,
        "collate_file": collate_file,
        "collate_line": collate_line,
        "shuffle": {"RandomSampler": True, "SequentialSampler": False}.get(type(sampler).__name__),
        "multiprocessing_context": _start_method(source),
        "made_file": made_file,
        "made_line": made_line,
        "made_by": made_by,
    }


def batch_size(source: Any) -> int | None:
    """Samples of a full batch, None where nobody says (no automatic batching, a batch sampler of the user's own)."""
    for holder in (source, getattr(source, "batch_sampler", None)):
        size = getattr(holder, "batch_size", None)
        if isinstance(size, int):
            return size
    return None


def optimizer(source: Any) -> dict[str, Any]:
    """One torch.optim.Optimizer: parameters are tensors, elements are numbers in them."""
    groups = source.param_groups
    parameters = [parameter for group in groups for parameter in group["params"]]
    row: dict[str, Any] = {
        "kind": "optimizer",
        "class": type(source).__name__,
        "module": type(source).__module__,
        "groups": len(groups),
        "parameters": len(parameters),
        "elements": sum(parameter.numel() for parameter in parameters),
        "dtype": _dtype(parameters),
    }
    for name in _OPTIMIZER_OPTIONS:
        value = groups[0].get(name) if groups else None
        row[name] = value if isinstance(value, bool) else None
    return row


def _dtype(parameters: list[Any]) -> str | None:
    """The type that most elements have, as torch writes it: `float32`."""
    elements: dict[str, int] = {}
    for parameter in parameters:
        name = str(parameter.dtype).rpartition(".")[2]
        elements[name] = elements.get(name, 0) + parameter.numel()
    return max(elements, key=elements.__getitem__) if elements else None


def torch_settings(torch: Any) -> dict[str, Any]:
    """The settings of torch that decide about speed; devices only where the job itself has initialized CUDA."""
    return {
        "kind": "torch",
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "affinity": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "cuda": torch.version.cuda,
        "devices": _devices(torch),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
    }


def distributed(torch: Any) -> dict[str, Any] | None:
    """torch.distributed, None where the job has not initialized it."""
    module = getattr(torch, "distributed", None)
    if module is None or not module.is_available() or not module.is_initialized():
        return None
    return {
        "kind": "distributed",
        "backend": str(module.get_backend()),
        "world_size": module.get_world_size(),
        "rank": module.get_rank(),
    }


def process(group: dict[str, Any] | None) -> dict[str, Any]:
    """Who this process is: rank from torch.distributed where that runs, else from the launcher's environment."""
    rank, source = 0, "assumed"
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        value = _number(name)
        if value is not None:
            rank, source = value, name
            break
    world = _first_number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")
    if group is not None:
        rank, source, world = group["rank"], "torch.distributed", group["world_size"]
    return {
        "rank": rank,
        "rank_source": source,
        "world_size": world,
        "local_rank": _first_number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"),
        "pid": os.getpid(),
        "host": os.uname().nodename if hasattr(os, "uname") else None,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "torch": torch_version(),
        "argv": redacted(getattr(sys, "argv", [])),
    }


def torch_version() -> str | None:
    """The version of the torch this process has imported, or is importing."""
    version = getattr(sys.modules.get("torch"), "__version__", None)
    return None if version is None else str(version)


def _either(source: Any, name: str) -> Any:
    """`name` of a loader, or `_name` of an iterator."""
    value = getattr(source, name, None)
    return getattr(source, "_" + name, None) if value is None else value


def _start_method(source: Any) -> str | None:
    context = getattr(source, "multiprocessing_context", None)
    method = getattr(context, "get_start_method", None)
    return method() if method is not None else None


def name_of(thing: Any) -> str:
    """Module and qualified name of a class or a function, or of the class of another thing."""
    module = getattr(thing, "__module__", None)
    name = getattr(thing, "__qualname__", None) or type(thing).__qualname__
    return f"{module}.{name}" if module else name


def plain_function(function: Any) -> Any:
    """What does the work: below partial, bound method and wrapper; the class of a callable object."""
    for _ in range(_WRAPPERS):
        inner = (
            getattr(function, "__wrapped__", None)
            or getattr(function, "__func__", None)
            or (getattr(function, "func", None) if type(function).__name__ == "partial" else None)
        )
        if inner is None:
            break
        function = inner
    if hasattr(function, "__code__") or hasattr(function, "__qualname__"):
        return function
    return type(function).__call__ if hasattr(type(function).__call__, "__code__") else type(function)


def function_place(function: Any) -> tuple[str | None, int | None]:
    """File and line of a function, below what wraps it; None for one that is not of Python."""
    code = getattr(plain_function(function), "__code__", None)
    return (None, None) if code is None else (_absolute(code.co_filename), code.co_firstlineno)


def class_place(kind: type) -> tuple[str | None, int | None]:
    """Where a dataset makes its samples: the method's definition, found without reading any source."""
    for name in ("__getitems__", "__getitem__", "__iter__", "__init__"):
        for owner in kind.__mro__:
            if name in owner.__dict__ and not _abstract(owner):
                place = function_place(owner.__dict__[name])
                if place[0] is not None:
                    return place
    return None, None


def _absolute(file: str) -> str:
    """As stacks have it; what is no path stays."""
    return file if file.startswith("<") else os.path.abspath(file)


def _abstract(kind: type) -> bool:
    return kind.__name__ in ("Dataset", "IterableDataset") and kind.__module__ == "torch.utils.data.dataset"


def _number(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() else None


def _first_number(*names: str) -> int | None:
    return next((value for value in map(_number, names) if value is not None), None)


def _devices(torch: Any) -> list[dict[str, Any]]:
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    rows = []
    for index in range(cuda.device_count()):
        properties = cuda.get_device_properties(index)
        rows.append(
            {
                "index": index,
                "name": properties.name,
                "total_memory": properties.total_memory,
                "capability": f"{properties.major}.{properties.minor}",
                "sms": properties.multi_processor_count,
            }
        )
    return rows
