"""Draw a small data set of photographs' size: four kinds of shapes, 533 × 800 JPEG, one folder per class."""

import argparse
import random
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT = 533, 800
CLASSES = ("circles", "squares", "stripes", "triangles")


def draw_shape(draw: ImageDraw.ImageDraw, kind: str, rng: random.Random) -> None:
    x, y, size = rng.randrange(WIDTH), rng.randrange(HEIGHT), rng.randrange(40, 160)
    color = tuple(rng.randrange(256) for _ in range(3))
    box = (x - size // 2, y - size // 2, x + size // 2, y + size // 2)
    if kind == "circles":
        draw.ellipse(box, fill=color)
    elif kind == "squares":
        draw.rectangle(box, fill=color)
    elif kind == "stripes":
        draw.line((x - size, y - size, x + size, y + size), fill=color, width=size // 6)
    else:
        draw.polygon(((x, box[1]), (box[0], box[3]), (box[2], box[3])), fill=color)


def draw_image(kind: str, rng: random.Random) -> Image.Image:
    background = tuple(rng.randrange(60, 200) for _ in range(3))
    image = Image.new("RGB", (WIDTH, HEIGHT), background)
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randrange(6, 14)):
        draw_shape(draw, kind, rng)
    # Grain, as a camera has: it makes the files as large, and as slow to decode, as photographs are.
    grain = Image.effect_noise((WIDTH, HEIGHT), 30).convert("RGB")
    return Image.blend(image.filter(ImageFilter.GaussianBlur(1)), grain, 0.15)


def make(folder: Path, images: int, seed: int = 0) -> None:
    rng = random.Random(seed)
    for index in range(images):
        kind = CLASSES[index % len(CLASSES)]
        split = "validation" if index // len(CLASSES) % 5 == 4 else "train"
        path = folder / split / kind / f"{index:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_image(kind, rng).save(path, quality=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parent / "data")
    parser.add_argument("--images", type=int, default=256)
    args = parser.parse_args()
    if args.data.exists():
        print(f"{args.data} is there already")
        return
    unfinished = args.data.with_name(args.data.name + ".unfinished")
    make(unfinished, args.images)
    unfinished.rename(args.data)
    print(f"drew {args.images} images of {WIDTH} x {HEIGHT} into {args.data}")


if __name__ == "__main__":
    main()
