"""Which rule about the input pipeline speaks, by what was measured. The contract of all rules tests their examples."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import polars as pl
import pytest

from stepscope.core.errors import MissingData
from stepscope.core.finding import Advice, Finding, Gain, Place, Rule, Title
from stepscope.core.run import Run
from stepscope.core.synth import MS, Synth, build
from stepscope.models.input_stall import input_stall
from stepscope.models.pipeline import pipeline
from stepscope.models.worker_pace import without_slow_worker
from stepscope.render.format import title_text
from stepscope.report.diagnose import RULES, _with_rules, diagnose

Parts = tuple[tuple[str, str, float, float], ...]
SPECIFIC = {name for name, rule in RULES.load().items() if rule.explains == "input-bound"}


def loading(parts: Parts, *, cores: float = 32, waited: float | None = None, feed: float = 1, workers: int = 1) -> Run:
    """Steps of 120 ms, of which 10 ms train; workers are busy for as long as `parts` last."""
    computing = sum(cpu for *_, cpu in parts) + feed + 10
    synth = Synth().loading(
        length=120, own=10, workers=workers, cores=cores, parts=parts, used=computing / 120, waited=waited, feed=feed
    )
    return synth.run()


def rules_of(run: Run) -> list[str]:
    return [block.rule for block in diagnose(run).findings]


def one(name: str, run: Run) -> Finding:
    (finding,) = RULES.get(name).check(run)
    return finding


def values(finding: Finding) -> dict[str, float]:
    return {row.label: row.value for row in finding.evidence}


EVEN: Parts = (("transform", "data.A", 40, 40), ("transform", "data.B", 40, 40), ("sample", "data.Pictures", 40, 40))
ONE: Parts = (("transform", "data.Blur", 115, 115), ("collate", "torch.c", 5, 5))


def test_all_of_them_explain_the_general_rule() -> None:
    assert {
        "few-workers", "batch-transfer", "crop-after-transform", "python-tokenizing", "repeated-file-load",
        "worker-restarts", "lock-contention", "slow-collate", "slow-transform", "slow-worker",
        "worker-oversubscription", "too-many-workers", "uneven-batches", "slow-storage", "queries-per-sample",
    } == SPECIFIC  # fmt: skip


def test_workers_that_compute_on_free_cores_are_too_few() -> None:
    run = loading(EVEN)
    assert rules_of(run) == ["few-workers"]
    found = values(one("few-workers", run))
    assert found["CPU-bound share"] == 1
    assert found["worker busy share"] == 1
    assert found["batch load time"] == 120 * MS


def test_one_slow_transform_is_hidden_by_workers_where_cores_are_free() -> None:
    assert rules_of(loading(ONE)) == ["few-workers"]


def test_workers_that_wait_are_no_workers_that_compute() -> None:
    run = loading((("read", "data.download", 115, 5), ("collate", "torch.c", 5, 5)), waited=0.0, cores=2)
    assert rules_of(run) == ["slow-storage"]
    finding = one("slow-storage", run)
    assert finding.where == (Place(file="/home/me/data.py", line=10, symbol="data.download"),)
    assert values(finding)["I/O wait share"] == pytest.approx(110 / 120)
    assert "num_workers=" in finding.advice[0].code


def test_waits_for_a_core_are_told_from_waits_for_files_or_nothing_is_said() -> None:
    parts: Parts = (("read", "data.download", 115, 5), ("collate", "torch.c", 5, 5))
    with pytest.raises(MissingData, match="waits of the loader for a core"):
        input_stall(loading(parts))
    assert rules_of(loading(parts)) == ["input-bound"]


def test_full_cores_and_no_part_that_stands_out_leave_the_general_finding() -> None:
    parts: Parts = tuple(("transform", f"data.T{number}", 12, 12) for number in range(10))
    assert rules_of(loading(parts, cores=1.0)) == ["input-bound"]


def test_more_workers_are_not_advised_where_no_core_is_free() -> None:
    full = input_stall(loading(EVEN, cores=1.1))
    assert full is not None
    assert full.best is None


def test_a_transform_that_fills_the_cores_is_named_with_its_line() -> None:
    finding = one("slow-transform", build(RULES.get("slow-transform").example, fixed=False))
    assert finding.where == (Place(file="/home/me/data.py", line=20, symbol="data.Blur"),)
    assert values(finding)["Blur CPU time per batch"] == 35 * MS
    assert values(finding)["share of loading CPU"] == pytest.approx(35 / 40)


def copying(name: str) -> Run:
    """As the example of slow-collate, with another collate function."""
    parts: Parts = (("sample", "data.Pictures", 4, 4), ("collate", name, 35, 35))
    return Synth().loading(length=20, own=10, workers=2, cores=2, parts=parts, used=2).run()


def test_copies_by_the_collate_function_of_torch_are_of_large_batches() -> None:
    assert rules_of(copying("data.collate")) == ["slow-collate"]
    assert rules_of(copying("torch.utils.data._utils.collate.default_collate")) == ["batch-transfer"]


def test_who_does_not_wait_has_no_problem_and_needs_no_record() -> None:
    synth = Synth().add("loaders", loader=0, train=True, num_workers=2)
    for step in range(40):
        synth.step(step, 10 * step, 10 * step + 10, data_wait=0.1, forward=4, backward=5)
    found = diagnose(synth.run())
    assert not found.findings
    assert set(found.checked) >= SPECIFIC - {"too-many-workers"}, "workers can be in the way where nothing waits"


def test_without_spans_the_general_finding_stays_and_the_others_say_what_they_lack() -> None:
    synth = Synth().add("loaders", loader=0, train=True, num_workers=2)
    for step in range(40):
        synth.step(step, 50 * step, 50 * step + 50, data_wait=30, forward=9, backward=10)
    found = diagnose(synth.run())
    assert [block.rule for block in found.findings] == ["input-bound"]
    lacking = {row.rule: row.how for row in found.unchecked if row.rule in SPECIFIC}
    assert set(lacking) == SPECIFIC - {"worker-restarts"}
    assert all("`stepscope run" in how for how in lacking.values())


def slow_run(rule: str, **columns: pl.Expr) -> Run:
    """The example of a rule, with other columns in the spans of loading."""
    run = build(RULES.get(rule).example, fixed=False)
    spans = run.optional("loader_spans")
    kept = {column: expression.cast(spans.schema[column]) for column, expression in columns.items()}
    return Run({**run.tables, "loader_spans": spans.with_columns(**kept)}, run.path)


def test_waiting_without_a_lock_in_the_samples_is_for_files() -> None:
    run = build(RULES.get("lock-contention").example, fixed=False)
    lines = run.optional("worker_stacks")
    plain = lines.with_columns(leaf=pl.lit(None, pl.String), text=pl.lit("answer = requests.get(url)"))
    assert rules_of(Run({**run.tables, "worker_stacks": plain}, run.path)) == ["slow-storage"]
    flock = plain.with_columns(expression=pl.lit("fcntl.flock(file, fcntl.LOCK_EX)"))
    assert rules_of(Run({**run.tables, "worker_stacks": flock}, run.path)) == ["lock-contention"]


def workers_of(*times: float, jitter: float = 0.0) -> Run:
    """Workers with these times for a batch, which the slowest holds up."""
    synth = Synth().add("meta", source="run.json", key="cores", value='{"effective": 32}')
    synth.add("loaders", loader=0, train=True, num_workers=len(times), prefetch_factor=2)
    length, noise = max(times) / len(times), cycle((-jitter, 0.0, jitter))
    for step in range(16 * len(times)):
        at, worker = step * length, step % len(times)
        synth.step(step, at, at + length, data_wait=length - 2, forward=1, backward=1)
        lasts = times[worker] + next(noise)
        synth.fetch(step, worker, at, (("sample", "data.Parts", lasts, lasts / 10),))
    return synth.run()


def test_a_worker_is_slow_only_if_its_times_are_apart_from_those_of_the_others() -> None:
    found = one("slow-worker", workers_of(20, 60, 22, 18))
    assert title_text(found.title) == "Worker 1 is 3× slower than the others"
    assert values(found)["others' batch load time"] == 20 * MS
    assert "where its part of the data is stored" in found.advice[0].text
    for times, jitter in (((20, 28, 20, 20), 0.0), ((20, 60), 0.0), ((20, 60, 20, 20), 50.0)):
        assert not list(RULES.get("slow-worker").check(workers_of(*times, jitter=jitter)))


@pytest.mark.parametrize(("own", "fixed"), [(5, 5), (12, 12), (2, 20 / 4)])
def test_a_slow_worker_costs_what_is_above_training_and_the_pace_of_the_others(own: float, fixed: float) -> None:
    """60 ms of one of four workers make steps of 15; without it 20 ms of four make steps of 5, where training can."""
    synth = Synth().add("meta", source="run.json", key="cores", value='{"effective": 32}')
    synth.add("loaders", loader=0, train=True, num_workers=4, prefetch_factor=2)
    for step in range(64):
        lasts = 60 if step % 4 == 1 else 20
        synth.step(step, 15 * step, 15 * step + 15, data_wait=15 - own, forward=own / 2, backward=own / 2)
        synth.fetch(step, step % 4, 15 * step, (("sample", "data.Parts", lasts, lasts / 10),))
        synth.add("system", time=15 * step * MS, rank=None, what="job CPU", value=1.0, unit="cores")
    measured = pipeline(synth.run(), 0)
    paces = {worker: np.array([[6, 60] if worker == 1 else [2, 20]]) * float(MS) for worker in range(4)}
    found = without_slow_worker(measured, paces, 1)
    assert found.step_ns == pytest.approx(fixed * MS, rel=0.08)  # a step that has not waited is shorter
    assert found.low_ns < found.step_ns < found.high_ns
    with pytest.raises(MissingData, match="load from other programs"):
        without_slow_worker(replace(measured, foreign=20.0), paces, 1)


def test_who_gives_each_sample_once_is_not_blamed() -> None:
    for shards, workers in ((True, 4), (None, 4), (False, 1)):
        synth = Synth().add("loaders", loader=0, train=True, num_workers=workers, shards=shards)
        assert not list(RULES.get("unsharded-iterable").check(synth.step(0, 0, 10).run()))


@pytest.mark.parametrize(("hosts", "free", "found"), [("aa", 140, True), ("ab", 140, False), ("ab", 70, True)])
def test_ranks_of_one_host_share_its_memory(hosts: str, free: int, found: bool) -> None:
    """A batch of 10 bytes, 4 of which are made ahead, and two that training holds: 60 bytes a rank."""
    synth = Synth().add("meta", source="run.json", key="shared_memory", value=f'{{"size": 200, "free": {free}}}')
    for rank, host in enumerate(hosts):
        synth.add("processes", rank=rank, pid=str(rank), host=host)
        synth.add("loaders", rank=rank, loader=0, train=True, num_workers=2, prefetch_factor=2)
        for worker in range(2):
            for kind, size in (("torch.uint8", 7), ("torch.int64", 3), ("float64", 1000)):
                pid = f"{rank}-{worker}"
                synth.add("batch_tensors", rank=rank, pid=pid, loader=0, worker=worker, type=kind, bytes=size)
    assert bool(list(RULES.get("small-shared-memory").check(synth.run()))) is found


def test_another_setting_is_to_be_tried() -> None:
    parts: Parts = tuple(("transform", f"data.T{number}", 12, 12) for number in range(10))
    codes = [advice.code for advice in one("input-bound", loading(parts, cores=1.0)).advice]
    assert "stepscope tune loader -- COMMAND" in codes


def test_further_threads_of_workers_are_told_but_not_that_which_serializes() -> None:
    def told(process: float) -> dict[str, float]:
        transforms: Parts = tuple(("transform", f"data.T{number}", 12, 12) for number in range(9))
        run = loading((*transforms, ("collate", "torch.c", 12, 12)), cores=1.0, feed=100)
        spans = run.optional("loader_spans")
        known = pl.when(pl.col("stage") == "collate").then(round(process * MS)).otherwise(pl.col("process_cpu"))
        return values(one("input-bound", Run({**run.tables, "loader_spans": spans.with_columns(process_cpu=known)})))

    label = "extra-thread CPU per batch"
    assert told(400)[label] == 180 * MS
    assert label not in told(220)


def test_threads_of_libraries_are_told_where_the_cores_are_full() -> None:
    run = build(RULES.get("worker-oversubscription").example, fixed=False)
    found = values(one("worker-oversubscription", run))
    assert found["main-thread CPU per batch"] == 6 * MS
    assert found["extra-thread CPU per batch"] == 45 * MS
    assert found["maximum threads per worker"] == 9

    def others(**columns: pl.Expr) -> list[str]:
        found = rules_of(slow_run("worker-oversubscription", **columns))
        return [rule for rule in found if rule == "worker-oversubscription"]

    assert title_text(one("worker-oversubscription", run).title) == (
        "18 worker threads on 2 cores: a library starts its own"
    )
    synth = Synth()
    for text, weight in (("picture = cv2.GaussianBlur(picture, (9, 9), 0)", 5), ("return np.stack(pictures)", 4)):
        synth.add("worker_stacks", worker=0, loader=0, pid="100", time=MS, weight=weight, text=text, line=weight)
    sampled = Run({**run.tables, "worker_stacks": synth.run().optional("worker_stacks")}, run.path)
    assert title_text(one("worker-oversubscription", sampled).title) == (
        "18 worker threads on 2 cores: OpenCV starts its own"
    )

    assert others() == ["worker-oversubscription"]
    assert others(count=pl.lit(None)) == ["worker-oversubscription"], "nobody counted them"
    assert not others(process_cpu=pl.lit(None)), "nobody measured them"
    assert not others(process_cpu=pl.when(pl.col("stage") == "collate").then(9 * MS)), "3 ms is a half, less 1 to send"
    cores = run.optional("meta").with_columns(value=pl.lit('{"effective": 32}'))
    assert not list(RULES.get("worker-oversubscription").check(Run({**run.tables, "meta": cores}, run.path)))


def epochs(*, start: float, fetch: float, persistent: bool = False) -> Run:
    """Epochs of 10 steps of 50 ms, the first of which waits `start` ms longer."""
    synth = Synth().add("loaders", loader=0, train=True, num_workers=2, persistent_workers=persistent)
    at = 0.0
    for step in range(60):
        first = step % 10 == 0
        length = 50 + (start if first else 0)
        tags = ("epoch-start",) if first else ()
        synth.step(step, at, at + length, data_wait=length - 49, forward=24, backward=25, tags=tags)
        synth.span("fetch", step, step % 2, at, at + fetch)
        at += length
    return synth.run()


def test_the_first_batch_of_an_epoch_is_no_start_of_workers() -> None:
    """Lasting workers have to make it as well."""
    assert not list(RULES.get("worker-restarts").check(epochs(start=200, fetch=200)))
    for fetch, kept in ((81, 120 / 200), (41, 0.7)):  # workers that last begin each epoch anew, too
        gain = one("worker-restarts", epochs(start=200, fetch=fetch)).gain
        assert gain is not None and 1.3 * gain.low_ns == pytest.approx(gain.high_ns * kept)


def test_workers_that_last_are_not_restarted() -> None:
    assert not list(RULES.get("worker-restarts").check(epochs(start=200, fetch=10, persistent=True)))


@pytest.mark.parametrize(("cores", "rules"), [(2, ["slow-collate", "few-workers"]), (3, ["few-workers"])])
def test_a_line_comes_before_workers_that_share_its_work_out_but_do_not_hide_it(cores: float, rules: list[str]) -> None:
    """Steps of 80 ms of which 26 train: of 70 ms in one function two cores leave steps of 50, three cores one of 30."""
    parts: Parts = (("sample", "data.Pictures", 3, 3), ("collate", "data.collate", 70, 70))
    synth = Synth().loading(length=80, own=26, workers=1, cores=cores, parts=parts, used=1.3)
    assert rules_of(synth.run()) == rules


def always(gain: float, rank: int, explains: str = "", low: float = 0, **known: Any) -> Rule:
    """A rule that always finds the same."""

    def check(run: Run) -> Iterator[Finding]:
        saved = Gain(
            low_ns=round(low * MS), high_ns=round(gain * MS), step_ns=1000 * MS, basis="test", confidence="table"
        )
        advice = (Advice(text="Fix it"),)
        finding = Finding(title=Title("It"), cause="model", evidence=(), gain=saved, advice=advice, ranks=(rank,))
        yield replace(finding, **known)

    return Rule(check=check, example=lambda synth, fixed: None, explains=explains)


def test_a_reason_stands_for_the_general_finding_of_its_ranks() -> None:
    def found(gain: float, rank: int) -> list[str]:
        rules = {"general": always(8, 0), "reason": always(gain, rank, explains="general")}
        return [block.rule for block in _with_rules(loading(EVEN), rules).findings]

    assert found(2, rank=0) == ["reason"]
    assert found(1.9, rank=0) == ["general", "reason"]  # too little to be the reason
    assert found(2, rank=1) == ["general", "reason"]


def test_a_cause_stands_for_another_way_to_save_as_much() -> None:
    def found(gain: float) -> list[str]:
        rules = {"other": always(10, 0), "cause": always(gain, 0, replaces=("other",))}
        return [block.rule for block in _with_rules(loading(EVEN), rules).findings]

    assert found(7) == ["cause"]
    assert found(6) == ["other", "cause"]


def test_another_way_that_may_save_as_much_but_surely_less_stands_for_nothing() -> None:
    rules = {"line": always(10, 0, low=6), "setting": always(10, 0, replaces=("line",))}
    assert [block.rule for block in _with_rules(loading(EVEN), rules).findings] == ["line", "setting"]


LINE = (Place(file="/home/me/data.py", line=20),)
SETTING = (Place(file="/home/me/train.py", line=5, symbol="DataLoader"),)


@pytest.mark.parametrize(
    ("line", "pool", "rank", "first"),
    [(7, "data-reading", 0, "line"), (6, "data-reading", 0, "setting"), (7, "operator", 0, "setting"),
     (7, "data-reading", 1, "setting")],
)  # fmt: skip
def test_a_setting_stands_behind_a_line_that_saves_about_as_much(line: int, pool: str, rank: int, first: str) -> None:
    """Of the same time of the same ranks."""
    setting = always(10, 0, cause="data-reading", where=SETTING)
    rules = {"setting": setting, "line": always(line, rank, cause=pool, where=LINE)}
    assert next(block.rule for block in _with_rules(loading(EVEN), rules).findings) == first


def test_what_is_surer_comes_first() -> None:
    """The middle of a range counts, not its upper end."""
    rules = {"unsure": always(9, 0), "sure": always(6, 0, low=5)}
    assert [block.rule for block in _with_rules(loading(EVEN), rules).findings] == ["sure", "unsure"]


def test_an_epoch_that_starts_workers_is_no_stall_besides() -> None:
    """Ending the workers takes time in the step that begins the next epoch."""

    def stalls(*, persistent: bool, text: str = "") -> list[str]:
        synth = Synth().add("loaders", loader=0, train=True, num_workers=2, persistent_workers=persistent)
        at = 0.0
        for step in range(60):
            first = step % 10 == 0
            length = 250 if first else 50
            tags = ("epoch-start",) if first else ()
            synth.step(step, at, at + length, data_wait=1, forward=20, backward=25, tags=tags)
            for tick in range(5 if first and text else 0):
                synth.sample(step, at + 50 + 40 * tick, 40, "other", "/home/me/train.py", 44, text=text)
            at += length
        return [title_text(found.title) for found in RULES.get("periodic-stall").check(synth.run())]

    assert stalls(persistent=False) == []
    assert stalls(persistent=True) == ["A stall takes 200 ms every 10 steps (26 % of training)"]
    assert stalls(persistent=False, text="torch.save(model, path)") == [
        "Saving a checkpoint takes 200 ms every 10 steps (26 % of training)"
    ]


def alone(*, cpu: float, core_wait: float) -> Run:
    """Without workers: fetches of 60 ms in steps of 80; `core_wait` of all time the process has no core."""
    synth = Synth().add("meta", source="run.json", key="cores", value='{"effective": 16}')
    synth.add("loaders", loader=0, train=True, dataset="Pictures", num_workers=0)
    for step in range(40):
        start = 80 * step
        synth.step(step, start, start + 80, data_wait=60, forward=10, backward=10)
        synth.span("fetch", step, None, start, start + 60, cpu=round(cpu * MS))
        for what, value, rank in (("job CPU", 0.5, None), ("other CPU", 0.0, None), ("core wait", core_wait, 0)):
            synth.add("system", time=(start + 40) * MS, rank=rank, what=what, value=value, unit="cores")
    return synth.run()


def test_without_workers_waits_for_a_core_are_no_waits_for_files() -> None:
    assert rules_of(alone(cpu=60, core_wait=0)) == ["few-workers"]
    assert rules_of(alone(cpu=6, core_wait=0)) == ["slow-storage"]
    contended = input_stall(alone(cpu=6, core_wait=0.8))
    assert contended is not None
    assert contended.idle == pytest.approx(0.1)
