"""Files are read or decoded in the training process.

A DataLoader without `num_workers` loads each batch while training waits. Reported where the dataset's `__getitem__` is
in the same file and opens, reads or decodes something.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, dotted

__all__ = ["CHECK"]

_READING = ("open", "imread", "read_image", "imdecode", "decode_image", "read_csv", "read_parquet", "loadtxt")


def find(script: Script) -> Iterator[Hit]:
    reading = {name for name, reads in _data_sets(script) if reads}
    for loader in script.loaders:
        workers = argument(loader, "num_workers", 5)
        none = workers is None or (isinstance(workers, ast.Constant) and workers.value == 0)
        data = argument(loader, "dataset", 0)
        kinds = {dotted(made.func) for made in _makers(script, data)}
        if none and kinds & reading and any(script.loops_over(loader)):
            what = f"{(kinds & reading).pop()} reads files in the training process: num_workers is 0"
            fix = "DataLoader(..., num_workers=4, persistent_workers=True)"
            yield hit_at(loader, what, fix)


def _data_sets(script: Script) -> Iterator[tuple[str, bool]]:
    """Classes with `__getitem__`, and whether that reads."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__getitem__":
                    calls = (dotted(one.func) for one in ast.walk(method) if isinstance(one, ast.Call))
                    yield node.name, any(call.rpartition(".")[2] in _READING for call in calls)


def _makers(script: Script, data: ast.expr | None) -> Iterator[ast.Call]:
    if isinstance(data, ast.Call):
        yield data
    elif isinstance(data, ast.Name):
        yield from script.made(data.id)


_DATA = """\
class Photos(Dataset):
    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index]))

"""
_TRAINING = """\
for x, y in loader:
    criterion(model(x), y).backward()
"""
CHECK = Check(
    find=find,
    example=f"{_DATA}loader = DataLoader(Photos(), batch_size=32)\n{_TRAINING}",
    fixed=f"{_DATA}loader = DataLoader(Photos(), batch_size=32, num_workers=4)\n{_TRAINING}",
)
