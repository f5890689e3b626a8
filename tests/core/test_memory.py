"""Memory that is freed stays with the process, and nothing of that reaches other processes."""

import os
import subprocess
import sys

import pytest

IMPORTED = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in ("numpy", "polars"):
            print(name, *map(os.environ.get, ("_RJEM_MALLOC_CONF", "OPENBLAS_NUM_THREADS")))

sys.meta_path.insert(0, Watch())
from stepscope.core.memory import import_arrays, keep_freed_memory
import_arrays()
print("then", "10000" in os.environ.get("_RJEM_MALLOC_CONF", ""), os.environ.get("OPENBLAS_NUM_THREADS"))
keep_freed_memory()
import numpy
print(int(numpy.ones(5_000_000).sum()))
"""


@pytest.mark.parametrize(
    ("own", "meanwhile", "then"),
    [
        ({}, "dirty_decay_ms:10000,muzzy_decay_ms:-1,oversize_threshold:0 1", "False None"),
        ({"_RJEM_MALLOC_CONF": "narenas:1"}, "narenas:1 1", "False None"),
        ({"OPENBLAS_NUM_THREADS": "3"}, "dirty_decay_ms:10000,muzzy_decay_ms:-1,oversize_threshold:0 3", "False 3"),
    ],
)
def test_only_polars_and_numpy_see_the_configuration(own: dict[str, str], meanwhile: str, then: str) -> None:
    settings = ("_RJEM_MALLOC_CONF", "OPENBLAS_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in settings} | own
    told = subprocess.run([sys.executable, "-c", IMPORTED], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == [f"numpy {meanwhile}", f"polars {meanwhile}", f"then {then}", "5000000"]
