"""Steps of an outer loop that were recorded in parts."""

from pathlib import Path

from stepscope.storage import open_run

from .run_files import LINE, TO_EPOCH, json_lines, records, step, write_process, write_run


def test_steps_of_an_outer_loop_are_put_together(tmp_path: Path) -> None:
    rows = [step(number, 1_000 + 100 * number, 1_090 + 100 * number, flags=8 * (number == 1)) for number in range(5)]
    folder = write_process(write_run(tmp_path / "run"), *rows)
    lost = {"kind": "outer_loop", "steps": [[2, 3], [4, 4], [5, "x"], None, [1]]}
    (folder / "facts.jsonl").write_text(json_lines({"kind": "outer_loop", "steps": [[0, 1], [2, 3]]}, lost))
    (folder / "lines.bin").write_bytes(records(b"STEPSCOPE-LINES1", LINE.size, LINE.pack(1_010, 0, 5, 1, 2, 0)))
    run = open_run(tmp_path / "run")
    names = ("step", "start", "end", "data_wait", "forward", "backward", "optimizer", "other", "samples", "tags")
    assert run.optional("steps").select(*names, "micro_batches").rows() == [
        (1, TO_EPOCH + 1_000, TO_EPOCH + 1_190, 20, 2, 4, 6, 158, 16, ["epoch-start"], 2),
        (3, TO_EPOCH + 1_200, TO_EPOCH + 1_390, 20, 2, 4, 6, 158, 16, [], 2),
        (4, TO_EPOCH + 1_400, TO_EPOCH + 1_490, 10, 1, 2, 3, 74, 8, [], 1),
    ]
    assert run.optional("stacks")["step"].to_list() == [1]
