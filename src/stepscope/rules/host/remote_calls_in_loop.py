"""The loop waits for a network, a database or another process in every step.

## What it finds
CPU jobs that spend more than 5 % of the steps outside the data wait in HTTP, sockets, databases, cloud storage or
subprocesses, or asleep.

## Why it costs time
A request takes far longer than an operator, and training waits for its answer.

## What to do
Send it from a background thread. Ask for many rows at once, before they are needed. What a batch needs belongs into the
data set, where loader workers wait instead.

## How the gain is predicted
The share of samples in such calls times the mean step: 0.7 to 1.4 times of it, less far up where many samples were
taken. A fix keeps a part of the cost, and the calls also slow down what follows them.

## When it is wrong
Sleeping may be on purpose, to share a machine.
"""

from collections.abc import Iterator

from stepscope.core.finding import Advice, Finding, Rule
from stepscope.core.run import Run
from stepscope.core.synth import Synth
from stepscope.models.called_code import called_code, called_example

__all__ = ["RULE"]

_FRAMES = (
    r"^(requests|urllib3?|http|httpx|aiohttp|socket\.py|ssl\.py|selectors\.py|sqlite3|sqlalchemy"
    r"|psycopg2?|pymysql|pymongo|redis|boto3"
    r"|botocore|s3fs|fsspec|gcsfs|google/cloud|subprocess\.py)\b"
)
_CALLS = (
    r"\b(time\.)?sleep\(|\b(requests|subprocess|urllib\.request)\.\w+\(|\.(execute|executemany|fetchone"
    r"|fetchall|commit)\("
)
_ADVICE = (
    Advice(
        text="Send it from a background thread",
        code="sender = concurrent.futures.ThreadPoolExecutor(1)  # once\n"
        "sender.submit(send, step, float(loss))  # in the loop",
    ),
)


def check(run: Run) -> Iterator[Finding]:
    yield from called_code(run, "Waiting at {} takes {} per step ({})", _ADVICE, _FRAMES, _CALLS)


def example(synth: Synth, fixed: bool) -> None:
    called_example(
        synth, fixed, text="connection.execute(INSERT, row)", expression="connection.execute(INSERT, row)",
    )  # fmt: skip


RULE = Rule(check=check, example=example, explains="host-bound")
