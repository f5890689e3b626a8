"""The complete files in docs/developing/extending.md work as they stand there."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from stepscope.core.errors import BadInput
from stepscope.core.importing import Importer, Sink
from stepscope.core.run import Analysis
from stepscope.core.schema import polars_schema
from stepscope.core.synth import MS, Synth, build
from stepscope.report.diagnose import diagnose

PAGE = Path(__file__).parents[1] / "docs" / "developing" / "extending.md"
SECTION_IMPORTS = "stepscope.analyses.host.annotation_times"


def module(constant: str, name: str = "from_the_page") -> ModuleType:
    """The file of the page that assigns a constant, executed."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (text,) = [block for block in blocks if re.search(rf"^{constant} = ", block, re.MULTILINE)]
    made = ModuleType(name)
    exec(compile(text, f"{PAGE.name}: {constant}", "exec"), made.__dict__)
    return made


def annotated() -> Synth:
    synth = Synth()
    for step in range(2):
        at = 100 * step
        synth.host(f"ProfilerStep#{step}", "annotation", at, at + 100)
        synth.host("encode", "annotation", at + 10, at + 40)
        synth.host("encode", "annotation", at + 50, at + 60)
        synth.host("decode", "annotation", at + 70, at + 120)
    return synth


def test_the_rule_keeps_its_contract() -> None:
    page = module("RULE")
    assert re.findall(r"^## ", page.__doc__ or "", re.MULTILINE) == ["## "] * 5
    bad, fixed = (build(page.example, fixed=fixed) for fixed in (False, True))
    (finding,) = page.check(bad)
    assert (finding.gain.low_ns, finding.gain.high_ns) == (4 * MS, 8 * MS)
    assert not list(page.check(fixed))
    assert not diagnose(bad).findings, "no built-in rule finds the same"


def test_the_analysis_sums_by_step_and_name() -> None:
    analysis = module("ANALYSIS").ANALYSIS
    assert isinstance(analysis, Analysis)
    table = analysis(annotated().run())
    assert dict(table.schema) == polars_schema(analysis.columns)
    assert table.rows()[:2] == [(0, 0, "decode", 1, 50 * MS), (0, 0, "encode", 2, 40 * MS)]


def test_the_section_shows_the_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, SECTION_IMPORTS, module("ANALYSIS", SECTION_IMPORTS))
    (table,) = module("SECTION").build(annotated().run())
    assert table.rows == (("decode", 2, 100 * MS), ("encode", 4, 80 * MS))


def test_the_importer_reads_counts_and_refuses(tmp_path: Path) -> None:
    importer = module("IMPORTER").IMPORTER
    assert isinstance(importer, Importer)
    path = tmp_path / "rank2.csv"
    content = b'name,start_us,dur_us,thread\n"a, b",10,20,main\nodd\nfar,1000000000000000000000,1,1\n'
    path.write_bytes(content)
    assert importer.sniff(path, content)
    sink = Sink()
    importer.read(path, sink)
    assert list(sink.skipped.values()) == [2]
    run = sink.run(str(path))
    assert run.optional("host", "rank", "name", "start", "end").rows() == [(2, "a, b", 10_000, 30_000)]
    assert run.optional("processes")["rank"].to_list() == [2]
    for broken in (b"", content.splitlines()[0], b"\x00\xff"):
        path.write_bytes(broken)
        with pytest.raises(BadInput, match="stepscope"):
            importer.read(path, Sink())
