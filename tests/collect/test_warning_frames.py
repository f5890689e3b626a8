"""A warning of the job has the text, the file and the line that it has without us."""

import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.collect import warning_frames as module

from ..command import command
from .test_probe_injection import OTHER_PYTHONS, other_python

WHOLE_TORCH = True

JOB = """
import pickle, sys, warnings
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

warnings.simplefilter("always")

def transform(sample):
    warnings.warn("of a transform", stacklevel=2)
    return sample

class Told(Dataset):
    def __init__(self): self.transform = transform
    def __len__(self): return 4
    def __getitem__(self, index):
        warnings.warn("of a sample", stacklevel=2)
        return self.transform(torch.ones(2))

class Local(Dataset):
    def __init__(self): self.held = lambda: 0
    def __len__(self): return 4
    def __getitem__(self, index): return torch.ones(2)

class Longer(IterableDataset):
    def __len__(self): return 2
    def __repr__(self): return "Longer"
    def __iter__(self): return iter(torch.ones(4, 2))

class Order(Sampler):
    def __len__(self): return 4
    def __iter__(self):
        warnings.warn("of a sampler", stacklevel=2)
        return iter(range(4))

def collate(samples):
    warnings.warn("of a collation", stacklevel=2)
    return torch.stack(samples)

class Mine(DataLoader):
    pass

Mine(Told(), num_workers=10_000)
longer = Mine(Longer(), batch_size=1)
len(longer)
unpicklable = Mine(Local(), num_workers=1, multiprocessing_context="spawn")
for loader in (Mine(Told(), sampler=Order(), collate_fn=collate), longer, unpicklable):
    try:
        for batch in loader:
            pass
    except (pickle.PicklingError, AttributeError):
        print("cannot be started", file=sys.stderr)
"""
WORDS = (
    "of a transform",
    "of a sample\n",
    "of a collation",
    "of a sampler",
    "Length of Iter",
    "will create 10000 worker",
    "Got pickle error",
)
HOOKED = """
import sys, warnings
sys.path.insert(0, {folder!r})
from warning_frames import hidden_from_warnings

def hook_of(original):
    def hook(*args):
        return original(*args)
    return hook

def told():
    warnings.warn("told", stacklevel=2)

for make in (lambda function: function, hidden_from_warnings):
    hook = make(hook_of)
    hooked = hook(hook(told))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hooked()  # the line
    print(caught[0].filename == __file__, caught[0].lineno)
"""


@pytest.mark.slow
def test_warnings_of_a_job_name_the_lines_that_they_name_without_us(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    bare = subprocess.run([sys.executable, job], capture_output=True, text=True, check=True).stderr
    words = ("run", "--quiet", "--loader", "all", "--out", tmp_path / "run", "--", sys.executable, job)
    watched = subprocess.run(command(*words), capture_output=True, text=True, check=True).stderr
    assert [word for word in WORDS if word not in bare] == []
    assert sorted(watched.splitlines()) == sorted(bare.splitlines())


@pytest.mark.parametrize("version", ["", *OTHER_PYTHONS])
def test_every_python_passes_over_such_a_function(tmp_path: Path, version: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(HOOKED.format(folder=str(Path(module.__file__).parent)))
    python = other_python(version) if version else sys.executable
    told = subprocess.run([python, script], capture_output=True, text=True, check=True).stdout.splitlines()
    line = HOOKED.splitlines().index("        hooked()  # the line") + 1
    assert told[1] == f"True {line}"
    assert told[0] != told[1], "the hook is in the way without it"
