"""What the page writes beside a track of values."""

from pathlib import Path

from ..page_source import answers

RUNNER = """
const { summary } = require(process.argv[2]);
const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));
const told = cases.map(([unit, low, high]) => summary({ track: { unit } }, { low: [low], high: [high] }, {}));
process.stdout.write(JSON.stringify(told));
"""


def test_a_count_is_a_number_without_a_unit(tmp_path: Path) -> None:
    cases = [("count", 0, 0), ("count", 0, 1000), ("ratio", 0, 0.5), ("cores", 0, 1.5), ("bytes", 0, 1024)]
    told = answers("timeline/paint.ts", RUNNER, cases, tmp_path)
    assert told == ["0", "0 – 1,000", "0 % – 50 %", "0 cores – 1.5 cores", "0 B – 1 KiB"]
