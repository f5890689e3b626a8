"""Tables of a part of the time, as the page asks for them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stepscope.core.synth import Synth

from .serving import answer, opened, served


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    synth = Synth().host("aten::mm", "operator", 10, 20).host("aten::add", "operator", 30, 40)
    with served(opened(synth.run())) as address:
        yield f"{address}api/between/"


def rows(address: str) -> tuple[int, Any]:
    status, _, body = answer(address)
    return status, json.loads(body)


def test_a_table_is_of_the_events_of_a_range_since_the_start(address: str) -> None:
    status, found = rows(f"{address}operators?from=0&to=15000000")
    at = [column["name"] for column in found["columns"]].index("name")
    assert (status, [row[at] for row in found["rows"]]) == (200, ["aten::mm"])


def test_a_range_without_events_lacks_them(address: str) -> None:
    status, found = rows(f"{address}operators?from=4000000&to=5000000")
    assert (status, found["missing"]) == (200, None)  # the operator around it
    status, found = rows(f"{address}operators?from=50000000&to=60000000")
    assert (status, found["missing"]["how"]) == (200, "choose a wider range")


@pytest.mark.parametrize(
    ("asked", "status"), [("operators", 400), ("operators?from=a&to=b", 400), ("nothing?from=0&to=15000000", 404)]
)
def test_what_makes_no_sense_is_refused(address: str, asked: str, status: int) -> None:
    assert rows(address + asked)[0] == status
