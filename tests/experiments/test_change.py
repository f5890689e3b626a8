"""The line to change is written with the new settings."""

from pathlib import Path

import pytest

from stepscope.core.finding import Place
from stepscope.experiments.change import change_for
from stepscope.experiments.trial_result import Loader, Setting

FOUR = Setting((("num_workers", 4), ("prefetch_factor", 4)))


def loader(place: Place | None, **more: object) -> Loader:
    known = {"dataset": None, "workers": 2, "prefetch": 2, "persistent": True, "pinned": False, "made_by": None}
    return Loader(place=place, **{**known, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "setting", "code"),
    [
        ("x = DataLoader(rows, 4, num_workers=2)", FOUR, "DataLoader(rows, 4, num_workers=4, prefetch_factor=4)"),
        ("x = wrap(torch.utils.data.DataLoader(rows))", FOUR,
         "torch.utils.data.DataLoader(rows, num_workers=4, prefetch_factor=4)"),
        ("x = DataLoader(rows, num_workers=2, persistent_workers=True)", Setting((("num_workers", 0),)),
         "DataLoader(rows, num_workers=0)"),
        ("x = DataLoader(rows, **options)", FOUR, "DataLoader(..., num_workers=4, prefetch_factor=4)"),
        ("x = DataLoader(rows, 4, True, None, None, 2)", FOUR, "DataLoader(..., num_workers=4, prefetch_factor=4)"),
        ("x = 1", FOUR, "DataLoader(..., num_workers=4, prefetch_factor=4)"),
    ],
)  # fmt: skip
def test_the_call_gets_the_words(tmp_path: Path, line: str, setting: Setting, code: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import torch\n{line}\n")
    change = change_for(setting, loader(Place(file=str(script), line=2)))
    assert (change.code, change.whole, change.place and change.place.line) == (code, "..." not in code, 2)


def test_a_call_over_several_lines_is_one(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = DataLoader(\n    rows,\n    num_workers=2,\n)\n")
    assert change_for(FOUR, loader(Place(file=str(script), line=1))).code.startswith("DataLoader(rows, num_workers=4")


def test_a_loader_that_nobody_can_find_is_told_by_its_words() -> None:
    gone = change_for(Setting((("num_workers", 0),)), loader(Place(file="/gone.py", line=1)))
    assert (gone.code, gone.remove) == ("DataLoader(..., num_workers=0)", ("prefetch_factor", "persistent_workers"))
    trainer = change_for(FOUR, loader(None, made_by="transformers"))
    assert trainer.code == "TrainingArguments(..., dataloader_num_workers=4, dataloader_prefetch_factor=4)"
