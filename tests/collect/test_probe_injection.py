"""How the probe gets into the job's Python, whichever that is, and that nobody sees it there."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect import probe_cost

from .conftest import RECORD, Recording, lines_of

pytestmark = pytest.mark.slow

WHOLE_TORCH = True

SOURCE = Path(__file__).parents[2] / "src"
INJECT = SOURCE / "stepscope" / "collect" / "inject"
OTHER_PYTHONS = ("3.9", "3.10", "3.12", "3.13")


def run(
    code: str, tmp_path: Path, *options: str, path: str = "", python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """`python -c code` with the probe injected, as the launcher would, `path` behind it on PYTHONPATH."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(INJECT), path))),
        "STEPSCOPE_RUN_DIR": str(tmp_path),
        "STEPSCOPE_OPTIONS": "{}",
    }
    return subprocess.run([python, *options, "-c", code], capture_output=True, text=True, env=environment)


ARMED = "any(type(finder).__module__.startswith('stepscope') for finder in sys.meta_path)"


def test_python_starts_armed_with_its_own_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    bare = subprocess.run([sys.executable, "-c", "import sys; print(sys.path)"], capture_output=True, text=True)
    told = run(f"import sys; print(sys.path); print({ARMED})", tmp_path)
    assert (told.stdout, told.stderr) == (bare.stdout + "True\n", "")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_takes_no_orders_is_left_alone(tmp_path: Path, option: str) -> None:
    told = run(f"import sys; print({ARMED})", tmp_path, option)
    assert (told.stdout, told.stderr) == ("False\n", "")


def test_the_users_sitecustomize_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.users = __file__")
    told = run(
        f"import sys, sitecustomize; print(sys.users, sitecustomize.__file__, {ARMED})", tmp_path, path=str(tmp_path)
    )
    file = str(tmp_path / "sitecustomize.py")
    assert (told.stdout, told.stderr) == (f"{file} {file} True\n", "")


@pytest.mark.parametrize("content", ["raise ValueError('mine')", "import no_such_module", "x ="])
def test_errors_of_the_users_sitecustomize_look_as_without_us(tmp_path: Path, content: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(content)
    bare = subprocess.run(
        [sys.executable, "-c", "print(1)"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    told = run("print(1)", tmp_path, path=str(tmp_path))
    assert (told.stdout, told.stderr) == (bare.stdout, bare.stderr)


def test_without_a_sitecustomize_of_the_user_there_is_none(tmp_path: Path) -> None:
    told = run("import sys; print('sitecustomize' in sys.modules)", tmp_path)
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print('sitecustomize' in sys.modules)"], capture_output=True, text=True
    )
    assert (told.stdout, told.stderr) == (bare.stdout, "")


def test_a_probe_that_cannot_be_imported_leaves_a_note_and_the_job(tmp_path: Path) -> None:
    code = "import sys; print(1)"
    package = tmp_path / "package" / "collect" / "inject"
    package.mkdir(parents=True)
    (package / "sitecustomize.py").write_text((INJECT / "sitecustomize.py").read_text())
    (tmp_path / "package" / "__init__.py").write_text("1 / 0")
    environment = {**os.environ, "PYTHONPATH": str(package), "STEPSCOPE_RUN_DIR": str(tmp_path)}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (told.stdout, told.stderr) == ("1\n", "")
    assert "ZeroDivisionError" in lines_of(tmp_path / "notes.jsonl")[0]["why"]


def test_starting_imports_no_heavy_module(tmp_path: Path) -> None:
    bare = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True)
    told = run("import sys; print(*sys.modules)", tmp_path)
    gained = set(told.stdout.split()) - set(bare.stdout.split())
    assert gained <= {
        "stepscope", "stepscope.collect", "stepscope.collect.probe", "stepscope.run_format",
        "stepscope.run_format.files", "importlib", "importlib.machinery", "__future__", "importlib._bootstrap",
        "importlib._bootstrap_external", "warnings",
    }  # fmt: skip


def other_python(version: str) -> str:
    folders = [path.parent for path in (Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}")]
    found = shutil.which(f"python{version}", path=os.pathsep.join([*map(str, sorted(folders)), os.environ["PATH"]]))
    if found is None:
        pytest.skip(f"no Python {version} on this machine")
    return found


A_FAKE_TORCH = {
    "torch/__init__.py": "__version__ = '0'\nfrom . import autograd\n",
    "torch/autograd.py": "def backward(tensors, retain_graph=None):\n    'doc'\n    return 'gradients'\n",
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/dataloader.py": """
class _BaseDataLoaderIter:
    def __init__(self, loader): self.left = list(loader.dataset)
    def __next__(self):
        if not self.left: raise StopIteration
        return self.left.pop()
    def __iter__(self): return self
class DataLoader:
    batch_size = None
    def __init__(self, dataset): self.dataset = dataset
    def __iter__(self): return _BaseDataLoaderIter(self)
""",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": """
class Optimizer:
    param_groups = ()
    def __init__(self):
        if not hasattr(type(self).step, 'hooked'):
            type(self).step = self.profile_hook_step(type(self).step)
            type(self).step.hooked = True
    @staticmethod
    def profile_hook_step(func):
        def wrapper(*args, **kwargs): return func(*args, **kwargs)
        return wrapper
""",
}
TRAINING = """
import torch, inspect
from torch.utils.data.dataloader import DataLoader
from torch.optim.optimizer import Optimizer
class Mine(Optimizer):
    def step(self, closure=None): return 'stepped'
optimizer = Mine()
for epoch in range(2):
    for batch in DataLoader([1, 2, 3]):
        assert torch.autograd.backward(batch, retain_graph=True) == 'gradients'
        assert optimizer.step() == 'stepped'
assert str(inspect.signature(torch.autograd.backward)) == '(tensors, retain_graph=None)'
assert (torch.autograd.backward.__name__, torch.autograd.backward.__doc__) == ('backward', 'doc')
print('trained')
"""


@pytest.mark.parametrize("version", OTHER_PYTHONS)
def test_the_probe_runs_in_other_pythons(
    tmp_path: Path, version: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSCOPE_HOOKS", kind)
    python = other_python(version)
    for name, content in A_FAKE_TORCH.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    told = run(TRAINING, tmp_path, "-W", "error", path=str(tmp_path), python=python)
    assert (told.stdout, told.stderr) == ("trained\n", "")
    (rank,) = tmp_path.glob("rank-*")
    steps = list(RECORD.iter_unpack((rank / "steps.bin").read_bytes()[64:]))
    assert [(step[0], step[10], step[11]) for step in steps] == [
        (0, 1, 8), (1, 1, 0), (2, 1, 0), (3, 1, 24), (4, 1, 0), (5, 1, 0),
    ]  # fmt: skip
    process = json.loads((rank / "process.json").read_text())
    assert process["python"].startswith(version)
    assert process["probe"] == kind
    assert [row["kind"] for row in lines_of(rank / "facts.jsonl")] == [
        "loader", "train_loader", "optimizer", "loader", "train_loader",
    ]  # fmt: skip


LOOKS = """
import inspect, json, sys
import torch
from torch.utils.data import DataLoader, dataloader
of = lambda f: [f.__name__, f.__qualname__, f.__module__, f.__doc__, str(inspect.signature(f))]
seen = [
    of(torch.autograd.backward),
    of(DataLoader.__iter__),
    of(dataloader._BaseDataLoaderIter.__next__),
    of(torch.optim.Adam.step),
    type(torch.autograd.__loader__).__name__,
    type(iter(DataLoader([1]))).__name__,
]
optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(1))])
seen.append(of(torch.optim.Adam.step))
json.dump(seen, open(sys.argv[1], "w"))
"""


def test_what_is_hooked_looks_as_before(record: Callable[..., Recording], tmp_path: Path) -> None:
    looks: list[Any] = []
    for name in ("bare", "seen"):
        command = [sys.executable, "-c", LOOKS, str(tmp_path / name)]
        if name == "bare":
            subprocess.run(command, check=True, capture_output=True)
        else:
            assert record(command).end.code == 0
        looks.append(json.loads((tmp_path / name).read_text()))
    assert looks[0] == looks[1]


def test_the_cost_of_a_step_is_measured_in_the_process() -> None:
    assert 100 < probe_cost.step_cost_ns() < 1_000_000
    assert inspect.signature(probe_cost.step_cost_ns).return_annotation == "int"
