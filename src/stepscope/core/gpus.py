"""What accelerators can do at most: the peaks that a roofline is drawn from, by product name.

The figures and their sources are in gpus.toml. They are what the vendor promises at boost clocks; a device that is
cold, capped or shared reaches less.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Gpu", "gpu_named", "known_gpus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """Peaks of one product: bandwidth in bytes/s, memory in bytes, arithmetic in FLOP/s by precision.

    `vector` is plain arithmetic, `matrix` the dense rate of tensor or matrix cores; `match` is the regular expression
    for the driver's name of the product. What no source confirms is not there, and `missing` says why.
    """

    name: str
    architecture: str
    match: str
    memory: float
    vector: Mapping[str, float]
    matrix: Mapping[str, float]
    source: str
    checked: str
    bandwidth: float | None = None
    multiprocessors: int | None = None
    missing: str = ""


@cache
def known_gpus() -> tuple[Gpu, ...]:
    """All products of the data file."""
    text = files("stepscope.core").joinpath("gpus.toml").read_text(encoding="utf-8")
    return tuple(Gpu(**entry) for entry in tomllib.loads(text)["gpu"])


@cache
def gpu_named(name: str | None, *, memory: int | None = None, multiprocessors: int | None = None) -> Gpu | None:
    """The product that a driver calls `name`; None for a name that is blank or not in the data file.

    Variants of one name are told apart by `memory` (bytes) and `multiprocessors`; where these are needed and not given,
    the slower variant is taken, because a roof too low is seen (shares above 1) and one too high is not.
    """
    found = [gpu for gpu in known_gpus() if name and re.search(gpu.match, name)]
    if memory is not None and found:
        distance = min(abs(gpu.memory - memory) for gpu in found)
        found = [gpu for gpu in found if abs(gpu.memory - memory) == distance]
    exact = [gpu for gpu in found if multiprocessors is not None and gpu.multiprocessors == multiprocessors]
    return min(exact or found, key=lambda gpu: (gpu.bandwidth or 0, max(gpu.vector.values())), default=None)
