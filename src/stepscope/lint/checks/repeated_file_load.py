"""`__getitem__` loads the same file for every sample.

Read a whole file in `__init__`, or cache it, if its name does not depend on the sample.
"""

import ast
from collections.abc import Iterator

from stepscope.lint.check import Check, Hit, hit_at
from stepscope.lint.script import Script, argument, dotted, names_in

__all__ = ["CHECK"]

_LOADS = (
    "json.load", "pickle.load", "yaml.safe_load", "pd.read_csv", "pd.read_parquet", "pandas.read_csv",
    "pandas.read_parquet", "np.load", "numpy.load", "torch.load", "h5py.File", "np.loadtxt",
)  # fmt: skip


def find(script: Script) -> Iterator[Hit]:
    for method in script.methods("__getitem__"):
        for call in ast.walk(method):
            if isinstance(call, ast.Call) and _loads_whole(call) and _is_same(method, call):
                what = f"`{script.code(call)}` runs for every sample"
                fix = "load it once in __init__"
                yield hit_at(call, what, fix)


def _loads_whole(call: ast.Call) -> bool:
    return dotted(call.func) in _LOADS and argument(call, "mmap_mode") is None and bool(call.args)


def _is_same(method: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether it runs for each sample, and its arguments are of the data set alone, or a file opened from such."""
    if any(isinstance(node, (ast.If, ast.Try)) and call in ast.walk(node) for node in ast.walk(method)):
        return False
    used = set[str]().union(*map(names_in, call.args))
    opened = {
        item.optional_vars.id: names_in(item.context_expr)
        for node in ast.walk(method) if isinstance(node, ast.With)
        for item in node.items if isinstance(item.optional_vars, ast.Name)
    }  # fmt: skip
    for name in used & opened.keys():
        used = (used - {name}) | (opened[name] - {"open"})
    return used <= {"self"}


CHECK = Check(
    find=find,
    example="""\
class Photos(Dataset):
    def __getitem__(self, index):
        with open(self.annotations) as file:
            labels = json.load(file)
        return self.pixels[index], labels[index]
""",
    fixed="""\
class Photos(Dataset):
    def __init__(self, annotations):
        with open(annotations) as file:
            self.labels = json.load(file)

    def __getitem__(self, index):
        return self.pixels[index], self.labels[index]
""",
)
