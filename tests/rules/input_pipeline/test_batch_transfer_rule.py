"""Large batches: what the rule about them says, and when."""

import polars as pl
import pytest

from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth, build
from stepscope.report.diagnose import RULES, diagnose


@pytest.mark.parametrize(("size", "rules"), [(100_000_000, ["batch-transfer"]), (1_000_000, ["input-bound"])])
def test_large_batches_are_slow_to_touch_where_training_is_the_limit(size: int, rules: list[str]) -> None:
    """Of 40 ms of training the first touch of 100 MB takes 20; it waits for 3 ms besides."""
    copies = ("collate", "torch.utils.data._utils.collate.default_collate", 36, 36)
    synth = Synth().loading(length=43, own=40, workers=1, cores=2, parts=(copies,), used=1.8)
    run = synth.add("batch_tensors", pid="1", loader=0, worker=0, type="torch.float64", bytes=size).run()
    assert [block.rule for block in diagnose(run).findings] == rules


def touched(size: int, freed: float = 0) -> Run:
    """Steps of 41 ms that wait for 1 of them; the loop's line is sampled for `freed` while it frees `size` bytes."""
    copies = ("collate", "torch.utils.data._utils.collate.default_collate", 36, 36)
    synth = Synth().loading(length=41, own=40, workers=1, cores=2, parts=(copies,), used=1.9)
    synth.add("batch_tensors", pid="1", loader=0, worker=0, type="torch.float64", bytes=size)
    loop = {"function": "train", "text": "for pictures, labels in loader:"}
    for step in range(40):
        at = 41 * step
        synth.sample(step, at, 1, "data_wait", "/home/me/train.py", 8, **loop)
        synth.sample(step, at + 1, freed, "forward", "/home/me/train.py", 8, **loop)
        synth.sample(step, at + 20, 40 - freed, "backward", "/home/me/train.py", 10, **BACKWARD)
    return synth.run()


BACKWARD = {
    "call": "torch/_tensor.py:600 backward",
    "leaf": "torch/autograd/graph.py:800 run",
    "text": "loss.backward()",
}


@pytest.mark.parametrize(("size", "rules"), [(100_000_000, ["batch-transfer"]), (1_000_000, [])])
def test_large_batches_cost_training_time_that_it_does_not_wait_for(size: int, rules: list[str]) -> None:
    assert [block.rule for block in diagnose(touched(size)).findings] == rules


@pytest.mark.parametrize(("freed", "least"), [(0, 0), (10, 5), (40, 10)])
def test_the_time_in_which_batches_are_freed_is_the_least_that_smaller_ones_save(freed: float, least: float) -> None:
    """Half of it for batches of half the size. 100 MB take 20 ms to free: more at that line is something else."""
    (found,) = RULES.get("batch-transfer").check(touched(100_000_000, freed))
    assert found.gain is not None
    assert found.gain.low_ns == pytest.approx(least * MS, abs=MS / 10)
    assert found.gain.pool == "host"
    figures = {row.label: row.value for row in found.evidence}
    assert figures.get("batch free time", 0) == pytest.approx(2 * least * MS, abs=MS / 10)


def test_training_on_a_device_touches_no_batch() -> None:
    run = touched(100_000_000)
    kernel = Synth().kernel(0, 1, "gemm").run()
    assert not list(RULES.get("batch-transfer").check(Run({**run.tables, "device": kernel.tables["device"]}, run.path)))


def test_copies_that_more_workers_hide_are_none_of_its_business() -> None:
    copies = ("collate", "torch.utils.data._utils.collate.default_collate", 36, 36)
    run = Synth().loading(length=40, own=10, workers=1, cores=8, parts=(copies,), used=1.2).run()
    assert [block.rule for block in diagnose(run).findings] == ["few-workers"]


def test_large_batches_say_what_they_consist_of() -> None:
    run = build(RULES.get("batch-transfer").example, fixed=False)
    synth = Synth()
    for worker in range(2):
        for kind, size in (("torch.float64", 4000), ("torch.int64", 80)):
            synth.add("batch_tensors", pid=str(worker), loader=0, worker=worker, type=kind, bytes=size)
    known = Run({**run.tables, "batch_tensors": synth.run().optional("batch_tensors")}, run.path)
    (finding,) = RULES.get("batch-transfer").check(known)
    found = {row.label: row.value for row in finding.evidence}
    assert found["torch.float64 bytes per batch"] == 4000
    assert found["torch.int64 bytes per batch"] == 80


@pytest.mark.parametrize(("piped", "found"), [(300, False), (1_000_000, True), (None, True)])
def test_small_batches_are_not_made_smaller(piped: int | None, found: bool) -> None:
    """4 KB of tensors; objects that are no tensors go through the pipe, or nobody recorded how much does."""
    run = build(RULES.get("batch-transfer").example, fixed=False)
    synth = Synth().add("batch_tensors", pid="1", loader=0, worker=0, type="torch.float32", bytes=4096)
    if piped is not None:
        synth.span("send", 0, 0, 1, 2, count=piped)
    sent, spans = synth.run(), run.optional("loader_spans")
    spans = pl.concat([spans, sent.optional("loader_spans").select(spans.columns)])
    known = {**run.tables, "batch_tensors": sent.optional("batch_tensors"), "loader_spans": spans}
    assert bool(list(RULES.get("batch-transfer").check(Run(known, run.path)))) is found
