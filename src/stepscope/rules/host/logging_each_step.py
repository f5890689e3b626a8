"""The loop logs or prints in every step.

## What it finds
CPU jobs that spend more than 5 % of the steps in logging: the modules logging, loguru, TensorBoard, Weights & Biases,
MLflow and their like, `print`, `write` and `flush`, or values that are written as JSON, YAML or CSV.

## Why it costs time
Formatting and writing run in the training process. A flush waits for the file system; a `print` to a slow terminal
waits for it. Reading a value for the log also ends what the device has queued.

## What to do
Log every 100th step. Log numbers, not tensors. Let a background thread write, and do not flush.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.8 to 1.6 times of it. What is formatted and written takes the
model out of the caches. Measured: 1.4 to 1.5 times.

## When it is wrong
A framework that logs by itself has a setting for it; see its page. Logs that are read while the job runs may have to
be complete.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example

__all__ = ["RULE"]

EVICTS = 1.42  # times the calls' time, at most, are saved: with few samples 1.6; measured 1.4 to 1.5
_FRAMES = (
    r"^(logging|loguru|wandb|mlflow|comet_ml|neptune|aim|clearml|tensorboardX?|yaml|csv)[/.]"
    r"|^json/encoder|^json/__init__"
    r"\.py:\d+ dumps?$|^torch/utils/tensorboard|^torch/_tensor_str"
)
_CALLS = (
    r"^print\(|\b(logger|logging|log|wandb|mlflow)\.\w+\(|\bjson\.dumps?\("
    r"|\.(write|writelines|writerow|flush|add_scalars?|add_histogram)\("
)
_ADVICE = (
    Advice(text="Write every 100th step, and do not flush", code="if step % 100 == 0:\n    ...  # this line"),
    Advice(
        text="Or write in a background thread",
        code="writer = concurrent.futures.ThreadPoolExecutor(1)  # once\n"
        "writer.submit(write, step, float(loss))  # in the loop",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    yield from called_code(run, "Logging at {} takes {} per step ({})", _ADVICE, _FRAMES, _CALLS, EVICTS)


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="file.write(json.dumps(record))", expression="json.dumps(record)",
        call="json/__init__.py:231 dumps", leaf="json/encoder.py:258 iterencode",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
