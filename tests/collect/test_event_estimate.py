"""What is known of a step's events before it is traced, and the limits that follow."""

import time

import pytest

from stepscope.collect.torch_profiler.event_estimate import LOOK_CPU_NS, Estimate
from stepscope.collect.torch_profiler.limits import Limit, call_in_main_thread
from stepscope.collect.torch_profiler.schedule import plan

torch = pytest.importorskip("torch")


def step(estimate: Estimate, operators: int) -> None:
    value = torch.randn(4, requires_grad=True)
    estimate.begin_step()
    for _ in range(operators):
        value = value * 1.0
    value.sum().backward()
    estimate.end_step()


def test_a_step_of_many_operators_is_known_without_a_look() -> None:
    estimate = Estimate()
    step(estimate, 6000)
    assert estimate.events == pytest.approx(6000 * 12, rel=0.01)
    assert [estimate.steps_in(allowed) for allowed in (50_000, 100_000, 250_000)] == [0, 1, 3]


def test_a_step_of_few_operators_needs_a_look() -> None:
    estimate = Estimate()
    step(estimate, 100)
    unknown = estimate.events, estimate.steps_in(400_000)
    assert unknown == (None, None)
    estimate.looked(3000, 20_000_000, cut=False)
    assert estimate.events == 3000
    assert estimate.steps_in(400_000) == 133
    # 150,000 events a second of CPU: 400,000 and a quarter take 3.33 s
    assert estimate.cpu_limit_ns(400_000) == pytest.approx(500_000 / 150_000 * 1e9)


def test_a_cut_look_is_stretched_to_the_whole_step() -> None:
    estimate = Estimate()
    estimate._step_cpu = 1_000_000_000
    estimate.looked(1000, 100_000_000, cut=True)
    assert estimate.events == 20_000


def test_device_work_doubles_the_events() -> None:
    estimate = Estimate()
    estimate.device = True
    estimate.looked(1000, 10_000_000, cut=False)
    assert estimate.events == 2000


def test_an_empty_step_has_limits_too() -> None:
    estimate = Estimate()
    estimate.end_step()
    assert estimate.cpu_limit_ns(1) == LOOK_CPU_NS
    estimate.looked(0, 0, cut=False)
    assert estimate.steps_in(10) == 10


@pytest.mark.parametrize(
    ("schedule", "index", "expected"),
    [
        # look, first step of the warm-up, first and last recorded
        ({}, 0, (9, 10, 11, 13)),
        ({"wait": 99, "warmup": 1, "active": 10}, 0, (98, 99, 100, 109)),
        ({"wait": 3, "warmup": 2, "active": 1}, 0, (2, 3, 5, 5)),
        ({"wait": 3, "warmup": 0, "active": 1}, 0, (2, 3, 3, 3)),
        ({"wait": 0, "warmup": 3, "active": 1, "skip_first": 4}, 0, (4, 5, 7, 7)),
        ({"wait": 0, "warmup": 2, "active": 1}, 0, (-1, 1, 2, 2)),
        ({"wait": 1, "warmup": 2, "active": 1}, 0, (1, 2, 3, 3)),
        ({"wait": 0, "warmup": 0, "active": 2}, 0, (-1, 1, 1, 2)),
        ({"wait": 2, "warmup": 1, "active": 2, "repeat": 2}, 1, (6, 7, 8, 9)),
    ],
)
def test_the_steps_of_a_window(schedule: dict[str, int], index: int, expected: tuple[int, ...]) -> None:
    planned = plan(schedule, index)
    assert planned is not None
    assert (planned.look, planned.warmup, planned.first, planned.last) == expected


def test_windows_end_and_repeat_zero_means_for_ever() -> None:
    assert plan({"repeat": 2}, 2) is None
    assert plan({"repeat": 0}, 1000) is not None


@pytest.mark.parametrize("schedule", [{"active": 0}, {"wait": -1}, {"repeat": -1}])
def test_a_schedule_without_sense_is_refused(schedule: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="active >= 1"):
        plan(schedule, 0)


def test_cpu_time_counts_and_waiting_does_not() -> None:
    exceeded: list[str] = []
    limit = Limit(100_000_000, 0, exceeded.append)
    time.sleep(0.3)
    assert exceeded == []
    begin = time.thread_time()
    while not exceeded and time.thread_time() - begin < 5:
        pass
    limit.stop()
    limit.stop()
    assert exceeded == ["cpu"]
    assert limit.cpu() >= 100_000_000


def test_time_itself_can_be_the_limit() -> None:
    exceeded: list[str] = []
    limit = Limit(10**12, 50_000_000, exceeded.append)
    deadline = time.monotonic() + 10
    while not exceeded and time.monotonic() < deadline:
        time.sleep(0.01)
    limit.stop()
    assert exceeded == ["wall"]


def test_the_main_thread_makes_the_call_in_the_middle_of_a_loop() -> None:
    import threading

    seen: list[int] = []
    threading.Thread(target=call_in_main_thread, args=(lambda: seen.append(threading.get_ident()),)).start()
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        pass
    assert seen == [threading.main_thread().ident]
