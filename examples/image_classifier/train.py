"""Train a small convolutional network to tell shapes apart.

python make_data.py
python train.py --epochs 3 --workers 0
"""

import argparse
import random
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).parent
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class Resize:
    """Make the shorter side `size` pixels long."""

    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        scale = self.size / min(image.size)
        width, height = (round(side * scale) for side in image.size)
        return image.resize((width, height), Image.Resampling.BICUBIC)


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        left = random.randint(0, image.width - self.size)
        top = random.randint(0, image.height - self.size)
        return image.crop((left, top, left + self.size, top + self.size))


class CenterCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image):
        left, top = (image.width - self.size) // 2, (image.height - self.size) // 2
        return image.crop((left, top, left + self.size, top + self.size))


class RandomFlip:
    def __call__(self, image):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


class ToTensor:
    """An image of bytes to a normalized tensor of floats, channels first."""

    def __call__(self, image):
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        pixels = pixels.view(image.height, image.width, 3).permute(2, 0, 1).float().div(255)
        return (pixels - MEAN) / STD


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


TRAIN_TRANSFORM = Compose(Resize(320), RandomCrop(224), RandomFlip(), ToTensor())
VALIDATION_TRANSFORM = Compose(Resize(256), CenterCrop(224), ToTensor())


class ImageFolder(Dataset):
    """Images in one folder per class."""

    def __init__(self, folder, transform):
        self.classes = sorted(path.name for path in folder.iterdir())
        self.images = sorted(folder.glob("*/*.jpg"))
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        path = self.images[index]
        image = Image.open(path).convert("RGB")
        return self.transform(image), self.classes.index(path.parent.name)


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(
            self.block(3, 16, stride=4),
            self.block(16, 32, stride=2),
            self.block(32, 64, stride=2),
            self.block(64, 128, stride=2),
        )
        self.head = nn.Linear(128, classes)

    @staticmethod
    def block(channels_in, channels_out, stride):
        return nn.Sequential(
            nn.Conv2d(channels_in, channels_out, kernel_size=5, stride=stride, padding=2, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(inplace=True),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.features(images).mean(dim=(2, 3)))


def validate(model, loader, device):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for images, labels in loader:
            predicted = model(images.to(device)).argmax(dim=1).cpu()
            right += int((predicted == labels).sum())
            seen += len(labels)
    model.train()
    return right / seen


def train(args):
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = ImageFolder(args.data / "train", TRAIN_TRANSFORM)
    validation_set = ImageFolder(args.data / "validation", VALIDATION_TRANSFORM)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=args.workers, drop_last=True)
    validation_loader = DataLoader(validation_set, args.batch_size, num_workers=args.workers)

    model = ConvNet(len(train_set.classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss()

    step = 0
    for epoch in range(args.epochs):
        for images, labels in train_loader:
            images, labels = images.to(device), labels.to(device)
            loss = criterion(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                print(f"step {step}: loss {loss.item():.3f}", flush=True)
            if step == args.steps:
                return
        accuracy = validate(model, validation_loader, device)
        print(f"epoch {epoch + 1} of {args.epochs}: accuracy {accuracy:.0%}", flush=True)
        args.checkpoints.mkdir(exist_ok=True)
        torch.save({"epoch": epoch, "model": model.state_dict()}, args.checkpoints / "last.pt")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--checkpoints", type=Path, default=HERE / "checkpoints")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if not args.data.exists():
        parser.error(f"{args.data} is not there: run `python {HERE / 'make_data.py'}` first")
    train(args)


if __name__ == "__main__":
    main()
