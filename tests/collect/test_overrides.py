"""Settings of loaders from outside: real jobs get them, keep their batches, or keep their own and say why."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepscope.analyses.input_pipeline.lib.loader_overrides import asked_overrides, overrides_of
from stepscope.storage import open_run

from ..command import command

JOB = str(Path(__file__).parent / "jobs" / "overrides.py")
KINDS = ("map", "own", "shared", "validation")
pytestmark = pytest.mark.slow


def job(folder: Path, settings: str, *names: str) -> tuple[dict[str, str], dict[str, str], list[dict[str, Any]]]:
    """The settings at the end and the batches of each loader, by its name, and what was written of the trial."""
    words = ("run", "--quiet", "--trace", "none", "--lines", "none", "--out", str(folder), "--set", settings)
    done = subprocess.run(command(*words, "--", sys.executable, JOB, *names), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "stepscope" not in done.stderr.replace(sys.prefix, "")  # the folder of the checkout may be called so
    facts = next(folder.glob("rank-*/facts.jsonl")).read_text().splitlines()
    trial = [fact for fact in map(json.loads, facts) if fact["kind"] == "override"]
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return {name: own for name, own, _ in lines}, {name: seen for name, _, seen in lines}, trial


@pytest.fixture(scope="module")
def bare() -> dict[str, str]:
    """The batches of each loader as the script has it."""
    words = [sys.executable, JOB, *KINDS, "twice", "patient", "started", "before", "lambda"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return {name: seen for name, _, seen in (line.split(" ", 2) for line in done.stdout.splitlines())}


def test_loaders_that_train_get_the_settings_and_give_the_same_batches(tmp_path: Path, bare: dict[str, str]) -> None:
    wanted = "num_workers=2,prefetch_factor=3,persistent_workers=true"
    own, seen, told = job(tmp_path / "run", wanted, *KINDS)
    assert own == {"map": "2,3,True", "own": "2,3,True", "shared": "2,3,True", "validation": "0,None,False"}
    assert {name: seen[name] for name in ("map", "own", "validation")} == {
        name: bare[name] for name in ("map", "own", "validation")
    }
    shared, before = (sorted(json.loads(given["shared"].partition(" ")[2])) for given in (seen, bare))
    assert shared == before == list(range(12))
    assert [fact["refused"] for fact in told] == [None, None, None]
    assert told[0]["set"] == {
        "num_workers": [0, 2], "prefetch_factor": [None, 3], "persistent_workers": [False, True],
    }  # fmt: skip


def test_the_run_says_that_it_is_a_trial_and_where_its_loader_is_made(tmp_path: Path) -> None:
    job(tmp_path / "run", "num_workers=1,worker_threads=2", "map")
    run = open_run(tmp_path / "run")
    (one,) = overrides_of(run)
    line = next(n for n, text in enumerate(Path(JOB).read_text().splitlines(), 1) if "shuffle=True)" in text)
    assert one.place == f"overrides.py:{line}"
    assert one.changed == {"num_workers": (0, 1), "worker_threads": (None, 2)}
    assert asked_overrides(run) == {"num_workers": 1, "worker_threads": 2}
    (loader,) = run.table("loaders", how="").rows(named=True)
    assert (loader["num_workers"], loader["made_file"], loader["made_line"]) == (1, JOB, line)
    report = subprocess.run(command("report", tmp_path / "run"), capture_output=True, text=True)
    assert "Trial run: the loader of overrides.py:" in report.stdout


REMAKER = """
from torch.utils.data import DataLoader

def remade(loader):
    return type(loader)(loader.dataset, batch_size=loader.batch_size)

def made(dataset):
    return DataLoader(dataset, batch_size=2)
"""
USER = """
import torch, remaker
from torch.utils.data import DataLoader, TensorDataset

def train(loader):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (batch,) in loader:
        model(batch).mean().backward()
        optimizer.step()

train(remaker.remade(DataLoader(TensorDataset(torch.ones(8, 1)), batch_size=2)))
train(remaker.made(TensorDataset(torch.ones(8, 1))))
"""


def test_a_loader_that_a_library_makes_again_is_the_users_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "remaker.py").write_text(REMAKER)
    (tmp_path / "train.py").write_text(USER)
    monkeypatch.setenv("PYTHONPATH", f"{library}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    words = ("run", "--quiet", "--trace", "none", "--out", "run", "--set", "num_workers=1")
    subprocess.run(command(*words, "--", sys.executable, "train.py"), check=True, cwd=tmp_path)
    loaders = (
        open_run(tmp_path / "run").table("loaders", how="").select("num_workers", "made_file", "made_line", "made_by")
    )
    line = (
        USER.splitlines().index("train(remaker.remade(DataLoader(TensorDataset(torch.ones(8, 1)), batch_size=2)))") + 1
    )
    assert loaders.rows() == [(1, str(tmp_path / "train.py"), line, "remaker.py"), (1, None, None, "remaker.py")]


def test_what_cannot_be_set_is_refused_and_the_job_is_as_it_was(tmp_path: Path, bare: dict[str, str]) -> None:
    names = ("twice", "patient", "started", "before")
    _, seen, told = job(tmp_path / "more", "num_workers=2", "twice")
    assert seen == {"twice": bare["twice"]}
    assert "Twice is an IterableDataset that does not ask which worker it is in" in told[0]["refused"]
    own, seen, told = job(tmp_path / "none", "num_workers=0", *names)
    assert own == {"twice": "0,None,False", "patient": "1,2,False", "started": "1,2,False", "before": "1,2,True"}
    assert seen == {name: bare[name] for name in names}
    assert [fact["refused"] for fact in told] == [
        None,
        "num_workers=0: the loader has a timeout, which needs workers",
        "num_workers=0: the loader's worker_init_fn would not be called",
        "its workers, or its state, are those of an iteration before, with gradients off",
    ]


def test_a_loader_that_cannot_start_so_starts_as_it_would(tmp_path: Path, bare: dict[str, str]) -> None:
    own, seen, told = job(tmp_path / "run", "num_workers=1,multiprocessing_context=spawn", "lambda")
    assert (own, seen) == ({"lambda": "0,None,False"}, {"lambda": bare["lambda"]})
    assert "could not start with it" in told[0]["refused"]
    (loader,) = open_run(tmp_path / "run").table("loaders", how="").filter(train=True).rows(named=True)
    assert loader["num_workers"] == 0
