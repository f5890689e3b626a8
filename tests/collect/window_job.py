"""The training that the traced window is tried on, and what it leaves behind."""

import json
from pathlib import Path
from typing import Any

JOB = """
import json, os, sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from stepscope.collect.step_clock.clock import State
from stepscope.collect.recorder import Recorder
from stepscope.collect.torch_profiler.window import Window
from stepscope.run_format.options import RecordingOptions

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(800, 3, 8, 8), torch.randint(0, 10, (800,))), batch_size=8)
small = torch.randn(4, requires_grad=True)

state, recorder, flags = State(), Recorder(os.environ["OUT"]), {}

def window(schedule, **options):
    made = Window(RecordingOptions(trace=schedule, **options), recorder, state)
    flags[0] = 0
    return made

def train(window, steps, before=lambda step: None, operators=0):
    step = 0
    for images, labels in loader:
        if flags[step]:
            flags[step] |= window.edge()
        before(step)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        tiny = small
        for _ in range(operators):
            tiny = tiny * 1.0
        if flags[step]:
            flags[step] |= window.edge()
        (loss + 0 * tiny.sum()).backward()
        optimizer.step()
        state.step = step + 1
        flags[step + 1] = window.boundary(step)
        step += 1
        if step == steps:
            return

SCHEDULE = {"skip_first": 0, "wait": 3, "warmup": 1, "active": 3, "repeat": 1}
"""

WHOLE_LOOK = """
import stepscope.collect.torch_profiler.window as traced_window

traced_window.LOOK_CPU_NS *= 20  # a busy machine takes 4 µs of CPU time for an event, an idle one 1.2 µs
"""

END = """
print(json.dumps({"flags": flags, "live": window.live}))
"""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()] if path.exists() else []


def events(path: Path) -> list[dict[str, Any]]:
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]


def within(outer: dict[str, Any], inner: dict[str, Any]) -> bool:
    return bool(outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"])


def outcome(job: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(row["status"], row["first_step"], row["last_step"], row["trace"]) for row in job["windows"]]
