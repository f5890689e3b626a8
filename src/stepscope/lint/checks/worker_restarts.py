"""The workers of a DataLoader start again in every epoch.

Without `persistent_workers=True`, each epoch starts and refills its workers again while training waits.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument

__all__ = ["CHECK"]


def find(script: Script) -> Iterator[Hit]:
    for loader in script.loaders:
        workers = argument(loader, "num_workers", 5)
        some = isinstance(workers, ast.Constant) and isinstance(workers.value, int) and workers.value > 0
        epochs = any(
            isinstance(outer, (ast.For, ast.While))
            for loop in script.loops_over(loader)
            for outer in script.above(loop)
        )
        if some and epochs and argument(loader, "persistent_workers") is None:
            what = "the workers start again in every epoch"
            fix = "DataLoader(..., persistent_workers=True)"
            yield hit_at(loader, what, fix)


_TRAINING = """
for epoch in range(90):
    for x, y in loader:
        criterion(model(x), y).backward()
"""
CHECK = Check(
    find=find,
    example=f"loader = DataLoader(photos, batch_size=32, num_workers=4){_TRAINING}",
    fixed=f"loader = DataLoader(photos, batch_size=32, num_workers=4, persistent_workers=True){_TRAINING}",
)
