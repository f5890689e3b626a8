"""Which library calls write a checkpoint."""

import pytest

from stepscope.analyses.lib.checkpoint_saving import saves

FIT = "lightning/pytorch/trainer/trainer.py:560 fit"


@pytest.mark.parametrize(
    ("call", "leaf", "expression", "expected"),
    [
        ("torch/serialization.py:900 save", "torch/serialization.py:1100 _save", None, True),
        ("torch/serialization.py:1300 load", "torch/serialization.py:1400 _load", None, None),
        ("torch/distributed/checkpoint/state_dict_saver.py:90 save", None, None, True),
        (FIT, "torch/serialization.py:1100 _save", None, True),
        (FIT, "lightning/fabric/utilities/cloud_io.py:80 _atomic_save", None, True),
        (FIT, "torch/_tensor.py:600 backward", None, None),
        ("lightning/pytorch/trainer/trainer.py:1400 save_checkpoint", "fsspec/local.py:300 write", None, True),
        ("transformers/modeling_utils.py:3000 save_pretrained", "safetensors/torch.py:350 save_file", None, True),
        ("transformers/trainer.py:2000 train", "safetensors/torch.py:350 save_file", None, True),
        ("torch/nn/modules/module.py:2200 state_dict", None, None, True),
        ("torch/nn/modules/module.py:2500 load_state_dict", None, None, None),
        ("numpy/lib/_npyio_impl.py:580 save", "numpy/lib/format.py:730 write_array", None, True),
        ("numpy/lib/_npyio_impl.py:1500 savetxt", None, None, None),
        ("numpy/lib/_npyio_impl.py:400 load", "numpy/lib/format.py:800 read_array", None, None),
        ("pickle.py:480 dump", "pickle.py:600 save", None, True),
        ("joblib/numpy_pickle.py:500 dump", None, None, True),
        (None, "/home/me/io.py:3 store", "pickle.dump(state, file)", True),
        (None, "/home/me/io.py:3 store", "torch.save(state, file)", True),
        (None, "/home/me/io.py:3 store", "file.write(text)", None),
        ("PIL/Image.py:2500 save", "PIL/ImageFile.py:600 _save", None, False),
        ("torchvision/utils.py:130 save_image", "PIL/PngImagePlugin.py:1300 _save", None, False),
        ("matplotlib/figure.py:3400 savefig", None, None, False),
        ("json/__init__.py:170 dump", "json/encoder.py:430 _iterencode", None, False),
        ("torch/utils/checkpoint.py:480 checkpoint", None, None, False),
        (None, None, None, None),
    ],
)
def test_what_one_sample_tells(call: str | None, leaf: str | None, expression: str | None, expected: bool) -> None:
    assert saves([(10, call, leaf, expression)]) is expected


def test_most_of_the_time_decides() -> None:
    save = (60, "torch/serialization.py:900 save", None, None)
    plot = (40, "matplotlib/figure.py:3400 savefig", None, None)
    assert saves([save, plot]) is True
    assert saves([save, (100, *plot[1:])]) is False
    assert saves([save, (100, None, None, "f.write(x)")]) is None
    assert saves([]) is None
