"""Repairing broken JSON: what it costs."""

import json

import pytest

from stepscope.importers.kineto import json_repair
from stepscope.importers.kineto.json_pieces import Decoders, repaired_value


def test_events_that_cannot_be_repaired_cost_less_than_reading_the_text_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0

    def counted(piece: str, decoders: Decoders) -> object:
        nonlocal seen
        seen += len(piece)
        result: object = repaired_value(piece, decoders)
        return result

    monkeypatch.setattr(json_repair, "repaired_value", counted)
    event = json.dumps({"ph": "X", "name": "op", "pid": 1, "tid": 1, "ts": 10, "dur": 5, "args": {"Stream id": 7}})
    broken = event.replace('"op', '"\\q').replace('"dur":', '"dur"') + " ;"
    told: dict[str, int] = {}
    text = '{"traceEvents": [' + ",\n".join([event, broken] * 200) + "]}"
    document, _ = json_repair.read(text, lambda reason, count: told.update({reason: count}))
    assert seen <= len(text)
    assert told[json_repair.LEFT_OUT] == 1
    assert document.lost == 200
