"""An accelerator that records no kernels is not told as one that did nothing."""

import json
from pathlib import Path

from stepscope.core.report import Text
from stepscope.report.sections.steps.workload import SECTION
from stepscope.storage import open_run


def test_work_in_another_form_is_told(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 90, "args": {}},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "job", "pid": 0, "tid": 1, "ts": 10, "dur": 420, "args": {}},
        {"ph": "X", "cat": "mtia_ccp_events", "name": "job", "pid": 0, "tid": 1, "ts": 440, "dur": 13, "args": {}},
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events}))
    told = " ".join(block.text for block in SECTION.build(open_run(path)) if isinstance(block, Text))
    assert "no work" not in told
    assert "whose work is not recorded as kernels, works for {} of {}" in told
