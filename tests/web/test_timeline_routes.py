"""What the server answers about the timeline, and how it refuses what it cannot answer."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from stepscope.core.synth import MS, Synth

from .serving import answer, opened, served


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    run = Synth().host("aten::mm", "operator", 1000, 1010).host("aten::mm", "operator", 1020, 1030).run()
    with served(opened(run)) as address:
        yield address


def asked(address: str, name: str, **words: object) -> tuple[int, dict[str, object]]:
    status, _, body = answer(f"{address}api/timeline/{name}?{urlencode(words)}")
    return status, json.loads(body)


def test_times_count_from_the_first_moment_of_the_run(address: str) -> None:
    _, told = asked(address, "tracks")
    assert (told["origin"], told["end"]) == (str(1000 * MS), 30 * MS)
    _, drawn = asked(address, "frame", **{"from": 0, "to": 30 * MS, "width": 10, "tracks": "1"})
    assert drawn["tracks"] == [
        {"id": "host:0:1:1", "drawn": 2, "merged": 0, "lanes": [
            {"lane": 0, "start": [0, 20 * MS], "length": [10 * MS, 10 * MS], "name": [0, 0]}]},
    ]  # fmt: skip
    _, found = asked(address, "find", text="MM", at=5)
    assert (found["total"], found["position"]) == (2, 2)
    assert found["hit"] == {"track": "host:0:1:1", "lane": 0, "start": 20 * MS}
    _, event = asked(address, "event", track="host:0:1:1", lane=0, start=0, way="next")
    assert event["ref"] == found["hit"]
    _, summed = asked(address, "sums", **{"from": 0, "to": 25 * MS, "tracks": "1"})
    assert summed["rows"] == [
        {
            "group": "work",
            "name": "aten::mm",
            "category": "operator",
            "count": 2,
            "own": 15 * MS,
            "sum": 15 * MS,
            "longest": 10 * MS,
            "union": 15 * MS,
        },
    ]


@pytest.mark.parametrize(
    ("name", "words", "status"),
    [
        ("frame", {"from": 5, "to": 5, "width": 10}, 400),
        ("frame", {"from": 0, "to": 5, "width": 1_000_000}, 400),
        ("frame", {"from": "x", "to": 5, "width": 10}, 400),
        ("frame", {"to": 5, "width": 10}, 404),
        ("event", {"track": "nowhere", "lane": 0, "start": 0}, 404),
        ("event", {"track": "host:0:1:1", "lane": 7, "start": 0}, 404),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(
    address: str, name: str, words: dict[str, object], status: int
) -> None:
    given, told = asked(address, name, **words)
    assert given == status
    assert told["error"]


def test_perfetto_is_told_of_a_window_and_refuses_words(address: str) -> None:
    _, _, body = answer(f"{address}api/perfetto?from=0&to={30 * MS}")
    told = json.loads(body)
    assert told["spans"] >= 2
    assert told["how"] == "pip install 'stepscope[timeline]'"
    assert answer(f"{address}api/perfetto?from=x")[0] == 400
    status, headers, _ = answer(f"{address}perfetto/index.html")
    assert status == 200
    assert "frame-ancestors 'self'" in dict(headers)["content-security-policy"]
    assert answer(f"{address}perfetto/../pyproject.toml")[0] == 404
