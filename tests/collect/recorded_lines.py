"""What a line sampler has written."""

import json
from pathlib import Path
from typing import Any

from stepscope.run_format.records import LINE

__all__ = ["Recorded"]


class Recorded:
    """What a sampler wrote: `samples` as dicts, `stacks` by id."""

    def __init__(self, directory: Path) -> None:
        raw = (directory / "lines.bin").read_bytes()
        assert raw[:16] == LINE.magic
        names = ("time", "step", "weight", "stack", "phase", "flags")
        self.samples: list[dict[str, int]] = [
            dict(zip(names, record, strict=True)) for record in LINE.struct.iter_unpack(raw[64:])
        ]
        path = directory / "frames.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self.stacks: dict[int, dict[str, Any]] = {row.pop("id"): row for row in rows}
        notes = (directory / "notes.jsonl").read_text().splitlines()
        self.notes = [json.loads(line) for line in notes if line.strip()]

    def weight(self, text: str) -> float:
        """Seconds of the samples whose innermost user line is `text`, the collector's own left out."""
        return sum(
            sample["weight"] / 1e9
            for sample in self.samples
            if self.stacks[sample["stack"]]["text"] == text and not sample["flags"]
        )

    def stack(self, text: str) -> dict[str, Any]:
        return next(stack for stack in self.stacks.values() if stack["text"] == text)
