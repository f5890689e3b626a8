"""Runs with spans of loading whose truth is known."""

from stepscope.core.run import Run
from stepscope.core.synth import Synth

__all__ = ["MS", "recorded"]

MS = 1_000_000
STEPS = 40


def recorded(
    *, workers: int = 2, fetch: float = 40, cpu: float = 40, step: float = 20, own: float = 10, cores: float = 16,
    job: float | None = None, others: float = 0.0, epoch: int = 0, start: float = 0, collate: float = 4,
    **loader: object,
) -> Run:  # fmt: skip
    """Steps of `step` ms, `own` of them training; with `epoch`, every so many wait `start` longer."""
    synth = Synth()
    synth.add("meta", source="run.json", key="cores", value=f'{{"effective": {cores}}}')
    known = {"num_workers": workers, "prefetch_factor": 2, "batch_size": 8, "persistent_workers": False}
    synth.add("loaders", loader=0, train=True, dataset="Pictures", **{**known, **loader})
    at = 0.0
    for number in range(STEPS):
        first = bool(epoch) and number % epoch == 0
        length = step + (start if first else 0)
        tags = ("epoch-start",) if first else ()
        synth.step(number, at, at + length, data_wait=length - own, forward=own / 2, backward=own / 2, tags=tags)
        worker = number % workers if workers else None
        _batch(synth, number, at, worker, fetch, cpu, collate)
        time = int((at + length / 2) * MS)
        used = job if job is not None else (cpu + own) / step
        synth.add("system", time=time, rank=None, what="job CPU", value=used, unit="cores")
        synth.add("system", time=time, rank=None, what="other CPU", value=others, unit="cores")
        at += length
    return synth.run()


def _batch(synth: Synth, batch: int, at: float, worker: int | None, fetch: float, cpu: float, collate: float) -> None:
    parts = [("fetch", None, 0.0, fetch, cpu), ("sample", "data.Pictures", 0.0, fetch - collate, cpu - collate)]
    parts += [("transform", "data.Blur", 0.0, fetch / 2, cpu / 2)]
    parts += [("collate", "data.collate", fetch - collate, fetch, collate)]
    parts += [("serialize", None, fetch, fetch + 1, 1.0)] if worker is not None else []
    for stage, name, begin, end, used in parts:
        synth.add(
            "loader_spans", pid="1" if worker is None else str(100 + worker), worker=worker, loader=0, iterator=1,
            epoch=0, batch=batch, stage=stage, name=name, start=int((at + begin) * MS), end=int((at + end) * MS),
            cpu=int(used * MS), weight=1, failed=False,
        )  # fmt: skip
