"""Where output may go."""

import sys

import pytest

from stepscope.cli._output import check_page
from stepscope.core.errors import BadInput


def test_a_page_is_not_written_to_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for output in (None, "-"):
        with pytest.raises(BadInput, match="is a terminal") as raised:
            check_page(output)
        assert "-o report.html" in str(raised.value)
    check_page("report.html")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    check_page(None)
