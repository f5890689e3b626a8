"""Memory that is freed stays with the process, and nothing of that reaches other processes."""

import os
import subprocess
import sys

import pytest

IMPORTED = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "polars":
            print("import", os.environ.get("_RJEM_MALLOC_CONF"))

sys.meta_path.insert(0, Watch())
from stepscope.core.memory import keep_freed_memory, polars_keeping_freed_memory
polars_keeping_freed_memory()
print("then", os.environ.get("_RJEM_MALLOC_CONF"), "polars" in sys.modules)
keep_freed_memory()
import numpy
print(int(numpy.ones(5_000_000).sum()))
"""


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (None, ["import dirty_decay_ms:10000,muzzy_decay_ms:-1,oversize_threshold:0", "then None True", "5000000"]),
        ("narenas:1", ["then narenas:1 False", "5000000"]),
    ],
)
def test_only_polars_sees_the_configuration(own: str | None, said: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}
    environment |= {"_RJEM_MALLOC_CONF": own} if own else {}
    told = subprocess.run([sys.executable, "-c", IMPORTED], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == said
