"""The lines inside a call of a worker."""

from stepscope.analyses.input_pipeline.lib.worker_calls import lines_inside
from stepscope.core.finding import Place
from stepscope.core.synth import Synth


def test_a_call_is_named_by_the_busiest_lines_inside_it_where_they_were_sampled() -> None:
    synth = Synth().add("loaders", loader=0, train=True, num_workers=1)
    for number in range(12):
        line, function = (7, "collate") if number < 6 else (9, "collate") if number < 8 else (30, "other")
        synth.add(
            "worker_stacks", pid="100", worker=0, loader=0, time=number * 50_000_000, weight=50_000_000, file="/job.py",
            line=line, function=function, text=f"line {line}", frames=[f"/job.py:{line} {function}"],
        )  # fmt: skip
    run = synth.run()
    call = Place(file="/job.py", line=5, symbol="__main__.collate")
    assert lines_inside(run, 0, call) == (Place(file="/job.py", line=7, symbol="collate", text="line 7"),)
    elsewhere = Place(file="/job.py", line=1, symbol="__main__.unseen")
    assert (lines_inside(run, 0, elsewhere), lines_inside(run, 0, None)) == ((elsewhere,), ())
