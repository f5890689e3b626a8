"""Where torch.compile broke graphs: read from what torch keeps, with the user's own line."""

import subprocess
import sys
from pathlib import Path
from traceback import FrameSummary
from types import SimpleNamespace

import pytest

from stepscope.collect.graph_breaks import graph_breaks
from stepscope.collect.origins import Origins

MINE = "/home/me/model.py"
TORCH = "/usr/lib/python3/site-packages/torch/nn/modules/module.py"


def kept(reason: str, *frames: tuple[str, int]) -> SimpleNamespace:
    return SimpleNamespace(reason=reason, user_stack=[FrameSummary(file, line, "forward") for file, line in frames])


def test_the_innermost_line_of_the_users_own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = [
        kept("print()\n  hints for authors", (MINE, 3), (TORCH, 100), (MINE, 12), (TORCH, 7)),
        kept("print()", (MINE, 12)),
        kept("item()", (MINE, 14)),
        kept("in torch alone", (TORCH, 7)),
    ]
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(graph_break_reasons=reasons))
    rows = [(row["reason"], row["break_file"], row["break_line"], row["count"]) for row in graph_breaks(Origins())]
    assert rows == [("print()", MINE, 12, 2), ("item()", MINE, 14, 1)]


def test_a_job_that_compiles_nothing_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert graph_breaks(Origins()) == []
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace())
    assert graph_breaks(Origins()) == []


def test_no_more_than_a_few_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = [kept(f"reason {line}", (MINE, line)) for line in range(1, 200)]
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(graph_break_reasons=reasons))
    assert len(graph_breaks(Origins())) == 50


def test_torch_keeps_them(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "import torch\n"
        "from stepscope.collect.graph_breaks import graph_breaks\n"
        "from stepscope.collect.origins import Origins\n"
        "@torch.compile(backend='eager')\n"
        "def double(x):\n"
        "    x = x + 1\n"
        "    print(x)\n"
        "    return 2 * x\n"
        "double(torch.ones(2))\n"
        "print([(row['break_line'], row['function'], row['count']) for row in graph_breaks(Origins())])\n"
    )
    told = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[-1] == "[(7, 'double', 1)]"
