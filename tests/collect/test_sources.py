"""Source lines that a recording keeps: those around what it names, once, without secrets, of files as they ran."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepscope.collect import sources
from stepscope.collect.called_names import called_names
from stepscope.collect.origins import Origins
from stepscope.collect.sources import Sources, source_line

from ..command import command

pytestmark = pytest.mark.slow

SCRIPT = "import os\n\n\ndef main() -> None:\n    token = 'hf_abc'\n    work()\n\n\nmain()\n"


def script(folder: Path) -> str:
    """A file as it was before this process began."""
    path = folder / "train.py"
    path.write_text(SCRIPT)
    os.utime(path, (1, 1))
    return str(path)


def test_lines_around_a_place_are_told_once_and_cut_at_the_ends_of_the_file(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    kept = Sources(told.append, Origins())
    file = script(tmp_path)
    for line in (6, 6, 1, 9, 40):
        kept.keep(file, line)
    assert [(row["first"], row["lines"]) for row in told] == [
        (4, ["def main() -> None:", "    token = [hidden]", "    work()", "", ""]),
        (1, ["import os", "", ""]),
        (7, ["", "", "main()"]),
    ]
    assert {row["file"] for row in told} == {file}


def test_a_file_that_was_changed_since_the_process_began_shows_no_lines(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    file = script(tmp_path)
    os.utime(file, (time.time(), time.time()))
    Sources(told.append, Origins()).keep(file, 6)
    assert told == []
    assert source_line(file, 6) == ""


def test_there_is_an_end_to_the_places_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_PLACES", 2)
    told: list[dict[str, Any]] = []
    kept = Sources(told.append, Origins())
    for line in range(1, 9):
        kept.keep(script(tmp_path), line)
    assert len(told) == 2


def test_lines_that_set_how_torch_computes_are_kept_with_the_first_place_of_a_file(tmp_path: Path) -> None:
    """No sample meets them."""
    file = tmp_path / "train.py"
    lines = ["import torch", "", "torch.set_num_threads(1)", *[f"x = {number}" for number in range(20)]]
    file.write_text("\n".join(lines))
    os.utime(file, (1, 1))
    told: list[dict[str, Any]] = []
    kept = Sources(told.append, Origins())
    kept.keep(str(file), 20)
    kept.keep(str(file), 21)
    assert [row["first"] for row in told] == [1, 18, 19]
    assert told[0]["lines"] == lines[:5]


def test_of_a_library_or_of_something_without_a_file_nothing_is_kept(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    kept = Sources(told.append, Origins())
    kept.keep_users(json.__file__, 1)
    kept.keep_users(None, None)
    kept.keep("<string>", 1)
    assert told == []


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("loss.item()", ".item("),
        ("for batch in tqdm(loader):  # all", "for tqdm("),
        ("pixels = np.load(self.path)", "np.load("),
        ('print(f"secret({x}", loss.item())', "print( .item("),
        ("total += value", ""),
        ("value", "_"),
        ("if loss > best:", "if"),
    ],
)
def test_without_source_only_the_names_that_a_line_calls_stay(line: str, kept: str) -> None:
    assert called_names(line) == kept


JOB = """
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        unmistakable = sum(range(200_000))
        return torch.ones(3) * unmistakable

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Numbers(), batch_size=4, num_workers=WORKERS):
    model(batch).sum().backward()
    optimizer.step()
"""
LOADER = JOB.splitlines().index("for batch in DataLoader(Numbers(), batch_size=4, num_workers=WORKERS):") + 1


def recorded(folder: Path, workers: int, *options: str) -> Path:
    (folder / "train.py").write_text(JOB.replace("WORKERS", str(workers)))
    os.utime(folder / "train.py", (1, 1))
    words = ("run", "--quiet", "--out", "run", "--lines", "200", "--loader-lines", "200", *options, "--")
    subprocess.run(command(*words, sys.executable, "train.py"), check=True, cwd=folder)
    return folder / "run"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_keeps_the_lines_that_it_samples_and_the_line_that_makes_the_loader(tmp_path: Path, workers: int) -> None:
    run = recorded(tmp_path, workers)
    rows = [json.loads(line) for path in run.rglob("*.jsonl") for line in path.read_text().splitlines() if line.strip()]
    kept = {
        (Path(row["file"]).name, row["first"] + index): text
        for row in rows if "lines" in row and "first" in row
        for index, text in enumerate(row["lines"])
    }  # fmt: skip
    lines = JOB.replace("WORKERS", str(workers)).splitlines()
    assert kept["train.py", 9] == lines[8] == "        unmistakable = sum(range(200_000))"
    assert kept["train.py", LOADER] == lines[LOADER - 1]
    assert all(text == lines[number - 1] for (name, number), text in kept.items() if name == "train.py")
    (loader,) = [row for row in rows if row.get("kind") == "loader"]
    assert (loader["made_file"], loader["made_line"]) == (str(tmp_path / "train.py"), LOADER)


@pytest.mark.parametrize("workers", [0, 1])
def test_without_source_no_file_of_the_run_holds_the_users_code(tmp_path: Path, workers: int) -> None:
    run = recorded(tmp_path, workers, "--no-source")
    files = [path for path in run.rglob("*") if path.is_file()]
    assert any(path.name == "frames.jsonl" for path in files)
    assert not [path for path in files if path.name == "sources.jsonl"]
    assert not [path for path in files if b"unmistakable" in path.read_bytes() or b"200_000" in path.read_bytes()]


def test_without_source_a_program_on_the_command_line_is_hidden(tmp_path: Path) -> None:
    words = ("run", "--quiet", "--no-source", "--out", tmp_path / "run", "--", sys.executable, "-c", "print(17)")
    subprocess.run(command(*words), check=True, capture_output=True)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["command"][1:] == ["-c", "[hidden]"]
