"""The analysis `lines`, and what counts as host work."""

import polars as pl
import pytest

from stepscope.analyses.host.lines import lines
from stepscope.analyses.lib.sample_work import with_work
from stepscope.core.errors import MissingData
from stepscope.core.synth import MS, Synth

TRAIN = "/home/me/train.py"
CONVOLUTION = {
    "call": "torch/nn/modules/module.py:1773 _call_impl",
    "leaf": "torch/nn/modules/conv.py:543 _conv_forward",
}


def ten_steps() -> Synth:
    """Steps of 100 ms; the first three are warm-up."""
    synth = Synth()
    for step in range(10):
        synth.step(step, 100 * step, 100 * step + 100, data_wait=20, forward=50, backward=20, optimizer=10)
    return synth


def test_time_is_the_sampled_share_of_the_mean_steady_step() -> None:
    synth = ten_steps()
    for step in range(3, 10):
        synth.sample(step, 100 * step, 30, "forward", TRAIN, 7, function="forward", text="x = f(x)", **CONVOLUTION)
        synth.sample(step, 100 * step + 30, 30, "forward", TRAIN, 7, function="forward", text="x = f(x)", **CONVOLUTION)
        synth.sample(step, 100 * step + 60, 20, "other", TRAIN, 9, function="main", text="print(x)")
    found = lines(synth.run()).select("phase", "line", "work", "samples", "time", "share")
    assert found.rows() == [
        ("forward", 7, "model", 14, 75 * MS, 0.75),
        ("other", 9, "host", 7, 25 * MS, 0.25),
    ]


def test_warm_up_and_traced_steps_are_left_out() -> None:
    synth = ten_steps().step(10, 1000, 1100, tags=("traced",))
    synth.sample(0, 0, 90, "other", TRAIN, 1).sample(10, 1000, 90, "other", TRAIN, 2).sample(
        5, 500, 10, "other", TRAIN, 3
    )
    assert lines(synth.run()).select("line", "share").rows() == [(3, 1.0)]


def test_a_share_of_few_samples_has_a_low_lower_end() -> None:
    few = ten_steps().sample(5, 500, 10, "other", TRAIN, 3).sample(5, 510, 10, "forward", TRAIN, 4)
    many = ten_steps()
    for tick in range(100):
        many.sample(5, 500 + tick, 1, "other", TRAIN, 3).sample(5, 500 + tick, 1, "forward", TRAIN, 4)
    low_few, low_many = (lines(synth.run()).filter(pl.col("line") == 3)["share_low"].item() for synth in (few, many))
    # Wilson's interval for 1 of 2 and 100 of 200, z = 1.96
    assert low_few == pytest.approx(0.0945, abs=1e-4)
    assert low_many == pytest.approx(0.4314, abs=1e-4)


def test_without_samples_says_how_to_record_them() -> None:
    with pytest.raises(MissingData, match=r"--lines none"):
        lines(ten_steps().run())
    with pytest.raises(MissingData, match=r"steady steps"):
        lines(ten_steps().sample(0, 0, 10, "other", TRAIN, 1).run())


@pytest.mark.parametrize(
    ("phase", "call", "leaf", "expression", "work"),
    [
        ("data_wait", None, None, "self.transform(x)", "input"),
        ("other", "torch/utils/data/dataloader.py:700 __next__", None, None, "input"),
        ("forward", *CONVOLUTION.values(), "self.conv(x)", "model"),
        ("other", "torch/_tensor.py:600 backward", "torch/autograd/graph.py:800 run", "loss.backward()", "model"),
        ("forward", None, None, "torch.conv2d(x, w)", "model"),
        ("forward", None, None, "F.relu(x)", "model"),
        ("forward", None, None, "x @ w", "unclear"),
        ("forward", None, None, "x.relu()", "unclear"),
        ("forward", None, None, None, "unclear"),
        ("forward", None, None, "time.sleep(0.02)", "host"),
        ("forward", None, None, "np.roll(x, 1)", "host"),
        ("forward", None, None, "sorted(values)", "host"),
        ("forward", None, None, "total", "host"),
        ("other", "torch/serialization.py:900 save", "torch/serialization.py:1200 _save", "torch.save(s, p)", "host"),
        ("forward", "json/__init__.py:231 dumps", "json/encoder.py:258 iterencode", "json.dumps(d)", "host"),
        ("forward", "/usr/lib/python3.12/json/encoder.py:2 encode", None, "json.dumps(d)", "host"),
        ("forward", "PIL/Image.py:70 resize", None, "picture.resize(s)", "host"),
        ("forward", "timm/layers/mlp.py:40 forward", "timm/layers/mlp.py:40 forward", "self.mlp(x)", "unclear"),
        ("other", "timm/layers/mlp.py:40 forward", "timm/layers/mlp.py:40 forward", "model(x)", "model"),
        ("other", "wandb/sdk/run.py:40 log", None, "run.log(values)", "host"),
        ("other", None, None, "loss.item()", "host"),
    ],
)  # fmt: skip
def test_what_counts_as_host_work(
    phase: str, call: str | None, leaf: str | None, expression: str | None, work: str
) -> None:
    synth = Synth().sample(0, 0, 1, phase, TRAIN, 1, call=call, leaf=leaf, expression=expression)
    assert with_work(synth.run().optional("stacks"), gpu=())["work"].to_list() == [work]


@pytest.mark.parametrize(
    ("expression", "text", "work"),
    [
        ("loss.item()", "total += loss.item()", "unclear"),
        (None, "if loss > best:", "unclear"),
        ("time.sleep(1)", "time.sleep(1)", "host"),
        ("log.flush()", "log.flush()", "host"),
    ],
)
def test_beside_a_gpu_a_line_that_may_wait_for_it_is_no_host_work(expression: str, text: str, work: str) -> None:
    synth = Synth().sample(0, 0, 1, "other", TRAIN, 1, expression=expression, text=text)
    assert with_work(synth.run().optional("stacks"), gpu=(0,))["work"].to_list() == [work]


def test_the_forward_of_a_library_s_model_computes_while_a_framework_validates() -> None:
    between = [
        "transformers/trainer.py Trainer.evaluate",
        "transformers/models/bert/modeling_bert.py BertModel.forward",
    ]
    synth = Synth()
    for functions in (between, between[:1]):
        synth.sample(0, 0, 1, "other", TRAIN, 1, call="transformers/trainer.py:9 train", between=functions)
    assert with_work(synth.run().optional("stacks"), gpu=())["work"].to_list() == ["model", "host"]


def test_collections_are_the_collector_s_wherever_they_happen() -> None:
    synth = Synth().sample(0, 0, 1, "data_wait", TRAIN, 1, collector=True)
    assert with_work(synth.run().optional("stacks"), gpu=())["work"].to_list() == ["collector"]
