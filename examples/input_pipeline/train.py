"""A pipeline of photographs that is fixed step by step; docs/tutorials/input-pipeline.md tells the story.

python ../image_classifier/make_data.py
python train.py --stage baseline      # then workers, dilation, crop, batched: each has the changes before it as well
"""

import argparse
import io
import random
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import max_pool2d
from torch.utils.data import DataLoader, Dataset

STAGES = ("baseline", "workers", "dilation", "crop", "batched")
SIZE = 288  # of the square that is cut out of a photograph of 533 x 800
TO_YCBCR = torch.tensor([[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]])


class ToTensor:
    """A picture of Pillow to bytes, channels first."""

    def __call__(self, picture):
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        return pixels.view(picture.height, picture.width, 3).permute(2, 0, 1).contiguous()


class CropTensor:
    """A random square of a tensor."""

    def __call__(self, pixels):
        top, left = random.randint(0, pixels.shape[1] - SIZE), random.randint(0, pixels.shape[2] - SIZE)
        return pixels[:, top : top + SIZE, left : left + SIZE].clone()


class CropPicture:
    """A random square of a picture of Pillow."""

    def __call__(self, picture):
        top, left = random.randint(0, picture.height - SIZE), random.randint(0, picture.width - SIZE)
        return picture.crop((left, top, left + SIZE, top + SIZE))


class RandomMask:
    """Black squares at random places: single pixels, dilated."""

    def __init__(self, boolean):
        self.boolean = boolean

    def __call__(self, pixels):
        mask = torch.rand(pixels.shape[1:]) < 0.0005
        return pixels * ~(dilated_booleans(mask, 6) if self.boolean else dilated(mask, 6))


def dilated(mask, reach):
    """The largest value around each pixel: every pixel looks at 13 x 13 others."""
    return max_pool2d(mask[None, None].float(), 2 * reach + 1, stride=1, padding=reach)[0, 0] > 0


def dilated_booleans(mask, reach):
    """The same by shifting the mask: first along its rows, then along its columns."""
    for axis in (0, 1):
        length, wide = mask.shape[axis], mask.clone()
        for shift in range(1, reach + 1):
            wide.narrow(axis, shift, length - shift).logical_or_(mask.narrow(axis, 0, length - shift))
            wide.narrow(axis, 0, length - shift).logical_or_(mask.narrow(axis, shift, length - shift))
        mask = wide
    return mask


class ConvertColor:
    """Red, green and blue to luma and chroma, of a picture or a batch."""

    def __call__(self, pixels):
        return torch.einsum("dc,...chw->...dhw", TO_YCBCR, pixels.float())


class Scale:
    """To numbers around 0."""

    def __call__(self, pixels):
        return (pixels - 64) / 128


class Photographs(Dataset):
    def __init__(self, folder, length, transforms):
        files = sorted(folder.glob("*/*.jpg"))
        if not files:
            raise SystemExit(f"there are no pictures in {folder}: run python ../image_classifier/make_data.py")
        self.pictures = [file.read_bytes() for file in files[:64]]
        self.length, self.transforms = length, transforms

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        picture = Image.open(io.BytesIO(self.pictures[index % len(self.pictures)]))
        picture.load()
        for transform in self.transforms:
            picture = transform(picture)
        return picture, index % 4


def transforms_of(stage):
    done = STAGES.index(stage)
    crop = [CropPicture(), ToTensor()] if done >= STAGES.index("crop") else [ToTensor(), CropTensor()]
    colors = [] if stage == "batched" else [ConvertColor(), Scale()]
    return [*crop, RandomMask(boolean=done >= STAGES.index("dilation")), *colors]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 9, stride=8), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )  # fmt: skip
        self.classify = nn.Linear(512, 4)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.classify(self.features(pictures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", choices=STAGES, default="baseline")
    parser.add_argument("--workers", type=int, help="[default: 0 in the first stage, then 2]")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent.parent / "image_classifier/data/train")
    options = parser.parse_args()
    workers = options.workers if options.workers is not None else 0 if options.stage == "baseline" else 2
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other cores are for the workers
    photographs = Photographs(options.data, options.steps * 16, transforms_of(options.stage))
    model, loss_function = Network(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batched = [ConvertColor(), Scale()] if options.stage == "batched" else []
    for pictures, labels in DataLoader(photographs, batch_size=16, num_workers=workers):
        for transform in batched:
            pictures = transform(pictures)
        optimizer.zero_grad()
        loss = loss_function(model(pictures), labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
