"""The JSON contract."""

import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import jsonschema
import polars as pl

from stepscope.core.finding import Advice, Place
from stepscope.core.report import Overlap
from stepscope.core.schema import Column
from stepscope.render.document import Report
from stepscope.render.json import dumps, frame_document, report_document

SCHEMA = json.loads(files("stepscope.render").joinpath("report.schema.json").read_text(encoding="utf-8"))


NO_MORE = {"step": None, "share": None, "of": None}
BARE: dict[str, Any] = {"share": None, "of": "", "first": 0, "around": []}


def reread(report: Report) -> dict[str, object]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, object] = json.loads(dumps(report_document(report)), parse_constant=refuse)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_a_report_is_as_promised(report: Report) -> None:
    document = reread(report)
    assert document["schema"] == "stepscope-report"
    assert document["version"] == 2
    assert document["run"] == {
        "path": "stepscope-runs/train",
        "command": ["python", "train.py"],
        "framework": "torch 2.13.0",
        "ranks": [0],
        "devices": [{"rank": 0, "device": 0, "name": "NVIDIA H200"}],
        "steps": 120,
        "step_ns": {"median": 41_000_000, "mean": 150_000_000, "p10": 40_000_000, "p90": 44_000_000},
    }
    assert document["verdict"] == {
        "bound": "input",
        "share": 0.634,
        "sentence": "Data-loading bound: 63 % of each 41.2 ms step waits for data.",
        "rank": 0,
        "ranks": [0],
        "steps": 117,
        "next": "",
        "share_unrecorded": None,
        "likely": False,
    }
    assert document["findings"][0] == {  # type: ignore[index]
        "rule": "input-bound",
        "title": "Problem 1 takes 26 ms",
        "cause": "data-reading",
        "ranks": [0],
        "gain": {
            "low_ns": 12_000_000, "high_ns": 20_000_000, "step_ns": 150_000_000, "basis": "the wait without loading",
            "confidence": "structural", "pool": None, "curve": [],
        },
        "evidence": [
            {"label": "data wait", "value": 26_000_000, "unit": "ns", "source": "steps", **NO_MORE},
            {"label": "share of the step", "value": 0.634, "unit": "ratio", "source": "steps", **NO_MORE},
        ],
        "where": [{"file": "train.py", "line": 41, "symbol": "__getitem__", "text": "image = resize(image)", **BARE}],
        "advice": [
            {
                "text": "Load in workers:",
                "code": "DataLoader(\n    dataset,\n    num_workers=2,\n)",
                "language": "python",
            },
            {"text": "Make the transform cheaper.", "code": "", "language": "python"},
        ],
        "trial": "",
    }  # fmt: skip
    assert document["checked"] == ["input-bound"]
    assert document["unchecked"] == [
        {"rule": "blocking-sync", "missing": "device table", "how": "record it with `stepscope run`"}
    ]
    assert document["skipped"] == [{"source": "trace.json", "reason": "events without a name", "count": 3}]
    kinds = [[block["kind"] for block in section["blocks"]] for section in document["sections"]]  # type: ignore[attr-defined]
    assert kinds == [["verdict", "bars", "text"], ["finding"] * 5, ["table"], []]
    assert document["sections"][3]["missing"] == {  # type: ignore[index]
        "what": "device table",
        "how": "record a window: `stepscope run -- CMD`",
    }


def test_what_is_unknown_is_null(empty_report: Report) -> None:
    document = reread(empty_report)
    assert document["run"]["step_ns"] is None  # type: ignore[index]
    assert document["verdict"]["share"] is None  # type: ignore[index]


def test_hostile_names_stay_data(hostile_report: Report) -> None:
    text = dumps(report_document(hostile_report))
    assert text.isascii()
    document = reread(hostile_report)
    assert document["run"]["path"] == hostile_report.run.path  # type: ignore[index]
    assert document["findings"][0]["evidence"][0]["value"] is None  # type: ignore[index]


def test_a_table_keeps_integers_and_lists() -> None:
    columns = (
        Column("start", pl.Int64, "ns", ""),
        Column("share", pl.Float64, "ratio", ""),
        Column("tags", pl.List(pl.String), None, ""),
    )
    frame = pl.DataFrame(
        {"start": [2**60 + 1, None], "share": [float("nan"), 0.5], "tags": [["a", "b"], []]},
        schema={column.name: column.type for column in columns},
    )
    assert json.loads(dumps(frame_document("steps", columns, frame))) == {
        "analysis": "steps",
        "columns": [
            {"name": "start", "type": "Int64", "unit": "ns"},
            {"name": "share", "type": "Float64", "unit": "ratio"},
            {"name": "tags", "type": "List(String)", "unit": None},
        ],
        "rows": [
            {"start": 2**60 + 1, "share": None, "tags": ["a", "b"]},
            {"start": None, "share": 0.5, "tags": []},
        ],
    }


def test_what_a_finding_may_carry_is_written(report: Report) -> None:
    block = report.findings[0]
    place = Place(file="a.py", line=2, share=0.5, of="loading time", first=1, around=("def f():", "    return 1"))
    gain = replace(block.finding.gain, pool="data-wait")  # type: ignore[type-var]
    finding = replace(block.finding, where=(place,), gain=gain, trial="stepscope tune -- python train.py")
    overlap = Overlap(findings=(0, 1), most_ns=20_000_000, step_ns=150_000_000)
    document = reread(replace(report, findings=(replace(block, finding=finding),), overlaps=(overlap,)))
    written = document["findings"][0]  # type: ignore[index]
    assert written["where"] == [
        {
            "file": "a.py", "line": 2, "symbol": "", "text": "", "share": 0.5, "of": "loading time", "first": 1,
            "around": ["def f():", "    return 1"],
        }
    ]  # fmt: skip
    assert written["gain"]["pool"] == "data-wait"
    assert written["trial"] == "stepscope tune -- python train.py"
    assert document["overlaps"] == [{"findings": [0, 1], "most_ns": 20_000_000, "step_ns": 150_000_000}]


def test_commands_of_advice_name_the_run(report: Report) -> None:
    """A command in the JSON, which the page shows, can be pasted."""
    (block, *_) = report.findings
    advice = Advice(text="See all lines", code="stepscope show lines RUN", language="shell")
    block = replace(block, finding=replace(block.finding, advice=(advice,)))
    document: Any = report_document(replace(report, findings=(block,), run=replace(report.run, path="runs/a b")))
    assert document["findings"][0]["advice"][0]["code"] == "stepscope show lines 'runs/a b'"
