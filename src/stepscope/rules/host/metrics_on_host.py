"""Metrics are computed by a host library in every step.

## What it finds
CPU jobs that spend more than 5 % of the steps in scikit-learn, scipy, nltk, evaluate, sacrebleu, rouge or pandas.

## Why it costs time
These libraries take lists or arrays, check them and compute in one thread, while training waits. Most metrics are only
read once an epoch.

## What to do
Keep predictions as tensors and compute the metric once an epoch. Or compute it with torch operators.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
A metric that decides about the next step must be computed in it.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example

__all__ = ["RULE"]

_FRAMES = r"^(sklearn|scipy|nltk|evaluate|sacrebleu|rouge\w*|bert_score|pandas|statsmodels)[/.]"
_ADVICE = (
    Advice(
        text="Collect predictions, and compute the metric once an epoch",
        code="predicted.append(scores.detach())  # in the loop\n"
        "value = metric(torch.cat(predicted), torch.cat(labels))  # after it",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    yield from called_code(run, "Metrics at {} take {} per step ({})", _ADVICE, _FRAMES)


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="score = f1_score(labels, predicted)", expression="f1_score(labels, predicted)",
        call="sklearn/utils/_param_validation.py:210 wrapper", leaf="sklearn/metrics/_classification.py:1300 f1_score",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
