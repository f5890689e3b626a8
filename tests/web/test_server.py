"""What the server of `stepscope view` answers, and what it refuses."""

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import polars as pl
import pytest

from stepscope.analyses.steps.steps import steps
from stepscope.core.run import Run
from stepscope.core.schema import TABLES
from stepscope.core.synth import MS, Synth
from stepscope.render.json import dumps
from stepscope.web import Opened
from stepscope.web.routes.tables import ANALYSES, MOST_ROWS, listed, table_document
from stepscope.web.serving import is_loopback

from .serving import answer, opened, served

HOSTILE = "</script><script>alert(1)</script>"


def job() -> Run:
    synth = Synth()
    for number in range(30):
        synth.step(number, number * 10, number * 10 + 10, data_wait=4, forward=3, backward=2, optimizer=1)
    synth.host(HOSTILE, "operator", 1, 2)
    return synth.run()


@pytest.fixture(scope="module")
def what() -> Opened:
    return opened(job())


@pytest.fixture(scope="module")
def address(what: Opened) -> Iterator[str]:
    with served(what) as address:
        yield address


def test_the_page_and_its_files(address: str) -> None:
    status, headers, body = answer(address)
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert b'src="static/app.js"' in body
    for name, kind in (("app.js", "text/javascript"), ("app.css", "text/css")):
        status, headers, body = answer(f"{address}static/{name}")
        assert (status, headers["content-type"].partition(";")[0]) == (200, kind)
        assert len(body) > 1000


def test_every_answer_may_do_nothing_elsewhere(address: str) -> None:
    for path in ("", "static/app.js", "api/report", "api/tables", "nothing"):
        _, headers, _ = answer(address + path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"


def test_the_report_is_that_of_the_command(address: str, what: Opened) -> None:
    assert json.loads(answer(f"{address}api/report")[2]) == json.loads(dumps(what.document()))


def test_all_tables_are_listed_with_what_a_row_is(address: str) -> None:
    tables = json.loads(answer(f"{address}api/tables")[2])
    assert tables == listed()
    names = [table["name"] for table in tables]
    assert {name.replace("-", "_") for name in ANALYSES.names()} | set(TABLES) == set(names)
    assert len(names) == len(set(names))
    assert all(table["row"] for table in tables if table["kind"] == "analysis")


def test_a_table_has_its_columns_units_meanings_and_rows(address: str) -> None:
    table = json.loads(answer(f"{address}api/tables/steps")[2])
    expected = steps(job())
    names = [column["name"] for column in table["columns"]]
    assert names[:5] == ["rank", "step", "start, since first", "end, since first", "duration"]
    assert table["columns"][4] == {"name": "duration", "unit": "ns", "meaning": "end - start", "decimal": False}
    assert [row[4] for row in table["rows"]] == expected["duration"].to_list()
    assert table["rows"][1][2] == 10 * MS
    assert table["height"] == 30


def test_a_table_that_the_run_lacks_says_how_to_record_it(address: str) -> None:
    table = json.loads(answer(f"{address}api/tables/memory_curve")[2])
    assert table["rows"] == []
    assert table["missing"]["how"]


def test_numbers_that_javascript_would_round_are_text() -> None:
    synth = Synth().host("aten::mm", "operator", 0, 1)
    synth.add("memory", time=0, bytes=1, address=2**60 + 1)
    table = table_document(synth.run(), "memory")
    assert table is not None
    columns, rows = table["columns"], table["rows"]
    assert isinstance(columns, list) and isinstance(rows, list)
    at = [column["name"] for column in columns].index("address")
    assert rows[0][at] == str(2**60 + 1)


def test_of_too_many_rows_the_first_are_sent_and_their_number_is_said() -> None:
    frame = pl.DataFrame({"rank": [0] * (MOST_ROWS + 5), "value": [1.0] * (MOST_ROWS + 5)})
    table = table_document(Run({"system": frame}), "system")
    assert table is not None
    rows = table["rows"]
    assert isinstance(rows, list)
    assert (len(rows), table["height"]) == (MOST_ROWS, MOST_ROWS + 5)


@pytest.mark.parametrize(
    "path",
    ["api/tables/nothing", "api/tables/..%2f..%2fetc%2fpasswd", "static/../format.py", "static/%2e%2e/format.py",
     "static/built.txt", "../etc/passwd", "etc/passwd", "api"],
)  # fmt: skip
def test_there_is_nothing_else(address: str, path: str) -> None:
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    connection.request("GET", f"/{path}")
    assert connection.getresponse().status == 404
    connection.close()


def test_requests_that_no_page_of_ours_makes_are_refused(address: str) -> None:
    assert answer(address, method="POST", data=b"x")[0] == 405
    assert answer(address, method="DELETE")[0] == 405
    assert answer(address, data=b"x" * 10, method="GET")[0] == 413
    assert answer(f"{address}?q={'x' * 9000}")[0] == 414
    assert answer(address, headers={"Host": "evil.example"})[0] == 421
    assert answer(address, headers={"Host": "localhost:1"})[0] == 200


def test_with_a_token_nothing_is_answered_without_it(what: Opened) -> None:
    with served(what, token="secret") as address:
        for path in ("", "api/report", "static/app.js", "?token=wrong"):
            status, _, body = answer(address + path)
            assert status == 403
            assert b"token" in body
        status, headers, _ = answer(f"{address}?token=secret")
        assert status == 200
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert answer(f"{address}api/report", headers={"Cookie": cookie.partition(";")[0]})[0] == 200


def test_which_addresses_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "127.8.8.8")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.1.2", "::", "machine.example", "")))


def test_two_runs_are_beside_their_comparison_under_one_set_of_rules(what: Opened) -> None:
    told = "</script><b>"
    both = Opened(run=what.run, document=lambda: {"schema": "stepscope-page"}, beside={"a": what, "b": what})
    named = replace(both, beside={"a": replace(what, path=told), "b": what})
    with served(named, token="secret") as address:
        for path in ("", "a/", "b/api/report", "a/static/app.js", "api/report"):
            assert answer(address + path)[0] == 403
    with served(named) as address:
        status, headers, body = answer(address)
        assert status == 200 and "unsafe" not in headers["content-security-policy"]
        assert told.encode() not in body
        assert b'id="beside"' in body
        assert json.loads(answer(f"{address}api/report")[2]) == {"schema": "stepscope-page"}
        assert json.loads(answer(f"{address}a/api/report")[2]) == json.loads(dumps(what.document()))
        assert answer(f"{address}b/api/timeline/tracks")[0] == 200
        for path in ("api/tables", "api/timeline/tracks", "c/api/report", "a/../b/api/report/x"):
            status, headers, _ = answer(address + path)
            assert status == 404
            assert "default-src 'none'" in headers["content-security-policy"]
        assert b'id="beside"' not in answer(f"{address}a/")[2]
