"""Call trees of two runs: aligned by path and order, what appeared and vanished, and where the change itself lies."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.compare.call_trees import call_tree_of
from stepscope.compare.changes import Changes
from stepscope.compare.tree_changes import PathChange, tree_changes
from stepscope.core.synth import MS, Synth

Row = tuple[object, ...]


def changed(a: Synth, b: Synth, what: str = "host") -> Changes:
    trees = tree_changes(*(call_tree_of(synth.run()) for synth in (a, b)))
    return trees[what]


def rows(changes: Changes) -> set[Row]:
    """Path, calls and own time in µs of the rows that changed."""
    return {
        (row.name, row.calls_a, row.calls_b, *(None if time is None else time // 1000 for time in (row.a, row.b)))
        for row in changes.rows
        if row.difference or row.calls_a != row.calls_b
    }


def step(synth: Synth, *calls: tuple[str, float], at: float = 0, length: float = 40, number: int = 0) -> Synth:
    """A traced step of operators one after the other, each with a call inside that takes half of its time."""
    synth.host(f"ProfilerStep#{number}", "annotation", at, at + length)
    for name, time in calls:
        synth.host(name, "operator", at, at + time).host(f"in {name}", "operator", at, at + time / 2)
        at += time
    return synth


def test_the_change_lies_where_it_is_made_and_not_above() -> None:
    a = step(Synth(), ("aten::conv2d", 4), ("aten::relu", 2))
    b = step(Synth(), ("aten::conv2d", 10), ("aten::relu", 2))
    assert rows(changed(a, b)) == {
        ("ProfilerStep", 1.0, 1.0, 34_000, 28_000),
        ("ProfilerStep › aten::conv2d", 1.0, 1.0, 2_000, 5_000),
        ("ProfilerStep › aten::conv2d › in aten::conv2d", 1.0, 1.0, 2_000, 5_000),
    }
    whole = changed(a, b)
    assert (whole.a, whole.b) == (40 * MS, 40 * MS)
    totals = {row.path[-1]: (row.total_a, row.total_b) for row in whole.rows if isinstance(row, PathChange)}
    assert totals["ProfilerStep"] == (40 * MS, 40 * MS)
    assert totals["aten::conv2d"] == (4 * MS, 10 * MS)


def test_a_repeated_call_more_is_the_one_that_appeared_with_all_inside_it() -> None:
    """The second of three convolutions is new: it has other calls inside, so that the third finds its partner."""
    block = (("aten::conv2d", 2.0), ("aten::relu", 1.0))
    a = step(Synth(), *block, *block)
    b = step(Synth(), *block, ("aten::conv2d", 6.0), *block).host("aten::empty", "operator", 7, 8)
    assert rows(changed(a, b)) == {
        ("ProfilerStep", 1.0, 1.0, 34_000, 28_000),
        ("ProfilerStep › aten::conv2d", None, 1.0, None, 6_000),
    }
    assert {row.matched for row in changed(a, b).rows if row.a is None} == {"appeared"}
    assert {row.matched for row in changed(b, a).rows if row.b is None} == {"vanished"}


def test_shapes_tell_which_of_several_calls_is_new() -> None:
    def sizes(*sizes: int) -> Synth:
        synth = Synth().host("ProfilerStep#0", "annotation", 0, 40)
        for place, size in enumerate(sizes):
            synth.host("aten::mm", "operator", place, place + size / 1000, input_dims=f"[[{size}, 1]]")
        return synth

    changes = changed(sizes(100, 300, 100), sizes(100, 200, 300, 100))
    assert rows(changes) == {
        ("ProfilerStep", 1.0, 1.0, 39_500, 39_300),
        ("ProfilerStep › aten::mm", None, 1.0, None, 200),
    }
    assert rows(changed(sizes(100, 200), sizes(300, 400, 500))) == {
        ("ProfilerStep", 1.0, 1.0, 39_700, 38_800),
        ("ProfilerStep › aten::mm", 2.0, 2.0, 300, 700),
        ("ProfilerStep › aten::mm", None, 1.0, None, 500),
    }


def test_calls_in_another_order_are_still_the_same_calls() -> None:
    a = step(Synth(), ("aten::a", 1), ("aten::b", 2), ("aten::c", 3))
    b = step(Synth(), ("aten::c", 3), ("aten::b", 2), ("aten::a", 1))
    assert rows(changed(a, b)) == set()


def test_a_mark_around_calls_in_one_run_only_hides_no_pair() -> None:
    """Such as DistributedDataParallel.forward, or the user's own: what is inside has its partner outside."""
    plain, marked = Synth(), Synth()
    for synth in (plain, marked):
        synth.host("ProfilerStep#0", "annotation", 0, 40)
        synth.host("aten::conv2d", "operator", 2, 4).host("aten::relu", "operator", 4, 5)
    marked.host("DistributedDataParallel.forward", "annotation", 1, 6).host("inner", "annotation", 1.5, 5.5)
    assert rows(changed(plain, marked)) == {
        ("ProfilerStep", 1.0, 1.0, 37_000, 35_000),
        ("ProfilerStep › DistributedDataParallel.forward", None, 1.0, None, 2_000),
    }


def test_numbers_in_names_do_not_hide_a_pair() -> None:
    a = step(Synth(), ("triton_poi_fused_add_3", 4), number=7)
    b = step(Synth(), ("triton_poi_fused_add_5", 6), number=2)
    changes = changed(a, b)
    assert rows(changes) >= {("ProfilerStep › triton_poi_fused_add", 1.0, 1.0, 2_000, 3_000)}
    assert [row.matched for row in changes.rows if "triton" in row.name] == ["short name", "short name"]


def test_steps_are_put_together_and_calls_are_those_of_the_mean_step() -> None:
    a, b = Synth(), Synth()
    for number in range(4):
        step(a, ("aten::mm", 4), at=40 * number, number=number)
        logged = (("aten::item", 2.0),) if number == 3 else ()
        step(b, *logged, ("aten::mm", 4), at=40 * number, number=number)
    assert rows(changed(a, b)) == {
        ("ProfilerStep", 1.0, 1.0, 36_000, 35_500),
        ("ProfilerStep › aten::item", None, 0.25, None, 500),
    }


def test_of_several_ranks_it_is_the_mean() -> None:
    """The second rank has a call more, which counts for a half."""
    one, two = step(Synth(), ("aten::mm", 4)), step(Synth(), ("aten::mm", 4))
    two.host("ProfilerStep#0", "annotation", 0, 40, rank=1).host("aten::mm", "operator", 0, 8, rank=1)
    two.host("in aten::mm", "operator", 0, 2, rank=1).host("aten::item", "operator", 20, 21, rank=1)
    assert rows(changed(one, two)) == {
        ("ProfilerStep", 1.0, 1.0, 36_000, 33_500),
        ("ProfilerStep › aten::mm", 1.0, 1.0, 2_000, 4_000),
        ("ProfilerStep › aten::item", None, 0.5, None, 500),
    }


def test_backward_on_its_thread_is_part_of_the_step_and_waiting_for_it_is_not() -> None:
    def backward(time: float) -> Synth:
        synth = step(Synth(), ("aten::mm", 4))
        synth.host("autograd::engine::evaluate_function: MmBackward0", "operator", 10, 10 + time, thread="2")
        synth.host("MmBackward0", "operator", 11, 10 + time, thread="2")
        return synth.host("aten::pin_memory", "operator", 5, 6, thread="3")

    assert rows(changed(backward(5), backward(9))) == {
        ("ProfilerStep", 1.0, 1.0, 31_000, 27_000),
        (
            "ProfilerStep › autograd::engine::evaluate_function: MmBackward0 › MmBackward0", 1.0, 1.0, 4_000, 8_000,
        ),
    }  # fmt: skip
    names = {row.name for row in changed(backward(5), backward(9)).rows}
    assert "other threads › aten::pin_memory" in names


def launching(kernel: float, extra: bool = False) -> Synth:
    synth = Synth().host("ProfilerStep#0", "annotation", 0, 40).host("aten::linear", "operator", 1, 5)
    synth.host("aten::addmm", "operator", 2, 4).host("cudaLaunchKernel", "runtime", 2, 3, correlation=1)
    synth.kernel(5, 5 + kernel, correlation=1)
    if extra:
        synth.host("aten::to", "operator", 6, 9).host("aten::copy_", "operator", 6, 8)
        synth.host("cudaLaunchKernel", "runtime", 6, 7, correlation=2).kernel(20, 27, "copy", correlation=2)
    return synth


def test_device_time_lies_with_the_call_that_launched_it() -> None:
    assert rows(changed(launching(10), launching(8, extra=True), "device")) == {
        ("ProfilerStep › aten::linear › aten::addmm", 1.0, 1.0, 10_000, 8_000),
        ("ProfilerStep › aten::to", None, 1.0, None, 7_000),
    }
    assert "device" not in tree_changes(call_tree_of(launching(1).run()), call_tree_of(step(Synth()).run()))


def test_steps_marked_on_one_side_only_are_no_trees_to_align() -> None:
    unmarked = Synth().host("aten::mm", "operator", 0, 4)
    assert tree_changes(call_tree_of(step(Synth(), ("aten::mm", 4)).run()), call_tree_of(unmarked.run())) == {}
    assert call_tree_of(Synth().run()) is None
    assert call_tree_of(Synth().host("cudaLaunchKernel", "runtime", 0, 4).run()) is None
    twice = Synth().host("aten::mm", "operator", 0, 4).host("aten::mm", "operator", 4, 9)
    assert rows(changed(unmarked, twice)) == {("aten::mm", None, 1.0, None, 5_000)}


@st.composite
def trees(draw: st.DrawFn) -> Synth:
    """Steps of nested calls with few names, some launched device time, all in whole tenths of a millisecond."""
    synth, correlation = Synth(), iter(range(1, 10**6))

    def inside(start: int, end: int, depth: int) -> Iterator[None]:
        at = start
        while depth and at < end and draw(st.booleans()):
            begin = draw(st.integers(at, end))
            at = draw(st.integers(begin, end))
            name, kind = draw(st.sampled_from((("x", "operator"), ("y", "operator"), ("y_1", "operator"),
                                               ("mark", "annotation"), ("cudaLaunchKernel", "runtime"))))  # fmt: skip
            number = next(correlation) if kind == "runtime" else None
            dims = draw(st.sampled_from(("[[1]]", "[[2]]", None))) if kind == "operator" else None
            synth.host(name, kind, begin / 10, at / 10, correlation=number, input_dims=dims)
            if number:
                synth.kernel(begin / 10, (begin + draw(st.integers(0, 9))) / 10, correlation=number)
            yield from inside(begin, at, depth - 1)
        yield

    for number in range(draw(st.integers(1, 3))):
        synth.host(f"ProfilerStep#{number}", "annotation", 100 * number, 100 * number + 9)
        list(inside(1000 * number, 1000 * number + 90, 3))
    synth.host("aten::always", "operator", 9.5, 9.6).host("cudaLaunchKernel", "runtime", 9.5, 9.6, correlation=-1)
    return synth


def told(changes: Changes, *, mirrored: bool = False) -> list[str]:
    other = {"appeared": "vanished", "vanished": "appeared"}
    return sorted(
        str((row.name, row.b, row.a, row.calls_b, row.calls_a, other.get(row.matched, row.matched)))
        if mirrored
        else str((row.name, row.a, row.b, row.calls_a, row.calls_b, row.matched))
        for row in changes.rows
    )


@pytest.mark.slow
@settings(deadline=None)
@given(trees(), trees())
def test_own_changes_add_up_and_are_mirrored(a: Synth, b: Synth) -> None:
    one, two = call_tree_of(a.run()), call_tree_of(b.run())
    there, back = tree_changes(one, two), tree_changes(two, one)
    assert set(there) == set(back)
    for what, changes in there.items():
        assert sum(row.difference for row in changes.rows) == changes.b - changes.a
        assert sum(row.a or 0 for row in changes.rows) == changes.a
        assert (back[what].a, back[what].b) == (changes.b, changes.a)
        assert told(changes) == told(back[what], mirrored=True)


@pytest.mark.slow
@settings(deadline=None)
@given(trees())
def test_a_run_has_not_changed_against_itself(synth: Synth) -> None:
    tree = call_tree_of(synth.run())
    for changes in tree_changes(tree, tree).values():
        assert {(row.difference, row.matched) for row in changes.rows} <= {(0, "name")}
        assert all(row.calls_a == row.calls_b for row in changes.rows)


@pytest.mark.slow
@settings(deadline=None)
@given(trees())
def test_all_time_within_the_steps_is_told_once(synth: Synth) -> None:
    """All calls are on one thread, so that their own times add up to the steps."""
    tree = call_tree_of(synth.run())
    assert tree
    assert int(tree.tree.figures[:, 1].sum()) == tree.steps * 9 * MS
