"""JPEG photographs for benchmarks: crops of the pictures that come with scikit-image and scikit-learn.

    python benchmarks/make_photos.py FOLDER [--count 300]     (numpy, Pillow, scikit-image, scikit-learn)

Writes FOLDER/<picture>/<number>.jpg: 500 x 375, or 375 x 500 for every fifth, quality 90, 4:2:0, the usual shape of
ImageNet's files. Each is a box of the picture at random, shrunk or enlarged with Lanczos; the seed is fixed.
"""

import argparse
import pathlib
import statistics

import numpy as np
import skimage.data
import sklearn.datasets
from PIL import Image

PICTURES = ("astronaut", "chelsea", "coffee", "rocket", "hubble_deep_field", "immunohistochemistry", "retina")
SIZE = (500, 375)


def pictures():
    """(name, RGB array) of every picture that the installed wheels hold, without a download."""
    for name in PICTURES:
        try:
            picture = np.asarray(getattr(skimage.data, name)())
        except Exception as error:  # not in the wheel, and no network: which exception depends on the version
            print(f"left out: {name} ({type(error).__name__})")
            continue
        if picture.ndim == 3 and picture.shape[2] == 3 and picture.dtype == np.uint8:
            yield name, picture
    photos = sklearn.datasets.load_sample_images()
    for path, picture in zip(photos.filenames, photos.images):
        yield pathlib.Path(path).stem, picture


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=300)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    found = [(name, Image.fromarray(picture)) for name, picture in pictures()]
    sizes = []
    for number in range(args.count):
        name, picture = found[number % len(found)]
        width, height = SIZE if number % 5 else SIZE[::-1]
        largest = min(picture.width / width, picture.height / height)
        scale = largest * rng.uniform(0.55, 1.0)
        box_width, box_height = width * scale, height * scale
        left = rng.uniform(0, picture.width - box_width)
        top = rng.uniform(0, picture.height - box_height)
        box = (left, top, left + box_width, top + box_height)
        photo = picture.resize((width, height), Image.Resampling.LANCZOS, box=box)
        if rng.random() < 0.5:
            photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        path = args.folder / name / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo.save(path, quality=90, subsampling="4:2:0")
        sizes.append(path.stat().st_size)
    print(f"{len(sizes)} files of {len(found)} pictures, mean {statistics.mean(sizes) / 1000:.1f} kB, "
          f"{min(sizes) / 1000:.1f} to {max(sizes) / 1000:.1f} kB")


if __name__ == "__main__":
    main()
