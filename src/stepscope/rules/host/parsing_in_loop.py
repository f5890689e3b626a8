"""The loop parses text in every step.

## What it finds
CPU jobs that spend more than 5 % of the steps outside the data wait in parsers: JSON, regular expressions, CSV, XML,
YAML, pandas readers or tokenizers of the standard library.

## Why it costs time
Python parses in the training process, while nothing computes. What it parses is mostly the same in every epoch.

## What to do
Parse once before training and keep tensors. What must be parsed for each batch belongs into the data set, where loader
workers do it meanwhile.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them. In a function that mostly parses,
what it does to the parsed values counts, too.

## When it is wrong
Text that arrives while training runs (a stream, reinforcement learning) cannot be parsed before.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example
from stepscope.models.sampled_code import sampled_code

__all__ = ["RULE"]

_FRAMES = (
    r"^(json/decoder|json/scanner|re/|re\.py|sre_\w+\.py|csv\.py|xml/|html/|yaml/(?!representer|emitter)"
    r"|ast\.py|shlex\.py|pandas/io/"
    r"|tokenize\.py)|^json/__init__\.py:\d+ loads?$"
)
_CALLS = (
    r"\bjson\.loads?\(|\bre\.\w+\(|\bread_(csv|json|table|parquet)\(|\bast\.literal_eval\("
    r"|\.(findall|finditer|fullmatch)\(|\.split\((\)|[\"'])"
)
_ADVICE = (
    Advice(
        text="Parse once before training, and keep tensors",
        code="parsed = [parse(text) for text in texts]  # once, before the loop\nvalues = parsed[index]  # in the loop",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    """Calls that samples show at work in a parser, or lines that parse: whichever tells of more time."""
    words = "Parsing at {} takes {} per step ({})"
    called = called_code(run, words, _ADVICE, _FRAMES, _CALLS)
    found = [*called, *sampled_code(run, words, _ADVICE, calls=_CALLS)]
    yield from sorted(found, key=lambda finding: finding.evidence[0].value or 0, reverse=True)[:1]


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="fields = json.loads(line)", expression="json.loads(line)",
        call="json/__init__.py:299 loads", leaf="json/decoder.py:353 raw_decode",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
