"""Golden values for data/patching: UCF-VIT's own trees, sizes, centres and tokens, OpenCV's edges, SciPy's filters.

Usage: python tools/golden/make_adaptive_patching.py --upstream DIR
  DIR: UCF-VIT's src/UCF_VIT/dataloaders at c114eeb, which stays outside this repository; of it transform.py,
  quadtree.py and octree.py are run. They need no torch and no matplotlib for that: empty modules stand in.
  opencv-python-headless 5.0.0.93, scipy 1.17.1, numpy 2.4.6, scikit-image 0.26.0, safetensors 0.8.0

Writes tests/golden/data_adaptive_patching.safetensors. UCF-VIT mixes channels and patches of colour images in its last
line; their tokens here are its patches, put in order. Bits are packed with the lowest first.
"""

import argparse
import importlib
import pathlib
import sys
import types

import cv2
import numpy as np
import scipy
import scipy.ndimage
import skimage.data
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data_adaptive_patching.safetensors"

tensors = {}


def add(key, array):
    tensors[key] = np.ascontiguousarray(array)


def load_upstream(folder):
    torch = types.ModuleType("torch")
    torch.nn = types.ModuleType("torch.nn")
    torch.nn.Module = type("Module", (), {"__call__": lambda self, *args: self.forward(*args)})
    plots = types.ModuleType("matplotlib")
    plots.pyplot = types.ModuleType("matplotlib.pyplot")
    sys.modules.update({"torch": torch, "torch.nn": torch.nn, "matplotlib": plots,
                        "matplotlib.pyplot": plots.pyplot})
    folder = pathlib.Path(folder).resolve()
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(f"{folder.name}.transform")


def pack(bits):
    return np.packbits(bits.astype(bool).ravel(), bitorder="little")


def boxes_of(tree):
    """[L, 6]: z, y, x, depth, height, width."""
    rows = []
    for box, _ in tree.nodes:
        is_cube = hasattr(box, "z1")
        z = (box.z1, box.z2) if is_cube else (0, 1)
        rows.append([z[0], box.y1, box.x1, z[1] - z[0], box.y2 - box.y1, box.x2 - box.x1])
    return np.array(rows, np.int16)


def sizes_and_centres(size, centre):
    """[L, 1 + d]: twice the numbers, which are multiples of one half."""
    return (2 * np.concatenate([np.asarray(size)[:, None], np.asarray(centre)], 1)).astype(np.int16)


def make_edges(images):
    for name, image in images.items():
        for blur in (1, 3, 5):
            for low in (50, 99):
                edges = cv2.Canny(cv2.GaussianBlur(image, (blur, blur), 0), low, low + 50)
                add(f"canny.{name}.{blur}.{low}", pack(edges))


def make_quadtrees(upstream, images):
    for name, blur, low, length, patch in [("gray", 1, 50, 61, 8), ("gray", 3, 75, 61, 16), ("gray", 5, 99, 196, 4),
                                           ("rgb", 3, 60, 61, 8), ("rgb", 5, 80, 196, 4), ("blank", 3, 75, 196, 4),
                                           ("line", 1, 75, 784, 2)]:
        image = images[name]
        image = image.reshape(*image.shape[:2], -1)
        channels = image.shape[2]
        patchify = upstream.Patchify([blur], length, [low, low + 1], patch, channels)
        tokens, size, centre, tree = patchify(image)
        if channels > 1:
            tokens = np.stack(tree.serialize(image, (patch, patch, channels))[0])  # [L, p, p, C]
            tokens = tokens.transpose(3, 0, 1, 2).reshape(channels, length, -1)
        key = f"{name}.{blur}.{low}.{length}.{patch}"
        add(f"quadtree.{key}", boxes_of(tree))
        add(f"sizes.{key}", sizes_and_centres(size, centre))
        add(f"tokens.{key}", tokens.reshape(channels, length, -1).astype(np.uint8))


def make_field(upstream, field):
    """A 2-D field of floats, and its labels."""
    labels = (field * 5).astype(np.int32)
    for blur, low in [(3, 50), (5, 60)]:
        patchify = upstream.Patchify([blur], 61, [low, low + 1], 8, 1, "basic_ct")
        tokens, size, centre, tree = patchify(field[:, :, None])
        add(f"field_tree.{blur}.{low}", boxes_of(tree))
        if blur == 5:
            add(f"field_tokens.{blur}.{low}", tokens)
        label_tokens = tree.serialize_labels(labels[:, :, None].astype(np.float32), (8, 8, 1))[0]
        add(f"field_labels.{blur}.{low}", np.stack([t.reshape(8, 8) for t in label_tokens]).astype(np.int8))
        inverse = np.zeros((*field.shape, 1))
        for patch, (box, _) in zip(tokens.reshape(-1, 8, 8), tree.nodes):
            box.set_area(inverse, patch) if patch.ndim == 3 else inverse.__setitem__(
                (slice(box.y1, box.y2), slice(box.x1, box.x2), 0),
                cv2.resize(patch, box.get_size(), interpolation=cv2.INTER_CUBIC))
        add(f"field_inverse.{blur}.{low}", inverse[::4, ::2, 0].astype(np.float32))
        add(f"field_blur.{blur}", cv2.GaussianBlur(field, (blur, blur), 0)[::8])


def make_octrees(upstream, volume):
    labels = (volume * 5).astype(np.int32)
    for sigma, low, length, patch in [(0, 60, 64, 4), (1, 50, 64, 4), (3, 50, 64, 2), (1, 75, 120, 3)]:
        patchify = upstream.Patchify_3D([sigma], length, [low, low + 1], patch, 1, return_edges=True)
        tokens, size, centre, tree, edges = patchify(volume[..., None])
        key = f"{sigma}.{low}.{length}.{patch}"
        add(f"octree.{key}", boxes_of(tree))
        add(f"octree_edges.{key}", pack(edges))
        add(f"octree_sizes.{key}", sizes_and_centres(size, centre))
        if sigma == 1:
            add(f"octree_tokens.{key}", tokens)
        label_tokens = tree.serialize_labels(labels[..., None].astype(np.float32), (patch, patch, patch, 1))[0]
        add(f"octree_labels.{key}", np.stack(label_tokens)[..., 0].astype(np.int8))
        add(f"octree_inverse.{key}", tree.deserialize(tokens, patch, 1)[::4, ::4, ::4, 0].astype(np.float32))
        print(key, "leaves", len(tree.nodes), "edges", int((edges > 0).sum()))
    smooth = scipy.ndimage.gaussian_filter(volume, sigma=1)
    add("gaussian.1", smooth[::16])
    add("gaussian.5", scipy.ndimage.gaussian_filter(volume, sigma=5)[::16])


def make_filters(rng):
    for size, patch in [(2, 16), (4, 16), (8, 16), (5, 16), (3, 7), (32, 16), (17, 16), (1, 4)]:
        values = rng.random((size, size), dtype=np.float32)
        add(f"resize.{size}.{patch}.in", values)
        add(f"resize.{size}.{patch}.cubic", cv2.resize(values, (patch, patch), interpolation=cv2.INTER_CUBIC))
        if size > patch:
            add(f"resize.{size}.{patch}.area", cv2.resize(values, (patch, patch), interpolation=cv2.INTER_AREA))
    cube = rng.integers(0, 256, (7, 9, 11), dtype=np.uint8)
    slopes = [scipy.ndimage.sobel(cube.astype(np.float64), axis, mode="nearest") for axis in range(3)]
    add("sobel.in", cube)
    add("sobel.magnitude", np.floor(np.sqrt(sum(s**2 for s in slopes)) + 0.5).astype(np.uint16))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True, help="folder with UCF-VIT's transform.py")
    upstream = load_upstream(parser.parse_args().upstream)
    cv2.setNumThreads(1)
    rng = np.random.default_rng(0)
    photo = skimage.data.astronaut()
    rgb = cv2.resize(photo[:320, 60:380], (64, 64), interpolation=cv2.INTER_AREA)
    line = np.zeros((256, 256), np.uint8)
    line[:, 100:] = 200
    images = {"rgb": rgb, "gray": cv2.resize(skimage.data.camera(), (128, 128), interpolation=cv2.INTER_AREA),
              "blank": np.full((256, 256), 90, np.uint8), "line": line}
    noise = rng.integers(0, 256, (33, 70), dtype=np.uint8)
    for name, image in {"rgb": rgb, "gray": images["gray"], "noise": noise}.items():
        add(f"image.{name}", image.reshape(*image.shape[:2], -1))
    crop = np.ascontiguousarray(rgb[10:47, 5:58])  # of odd sides
    make_edges({"rgb": rgb, "gray": images["gray"], "noise": noise, "crop": crop})
    make_quadtrees(upstream, images)
    field = cv2.resize(skimage.data.camera(), (64, 64), interpolation=cv2.INTER_AREA)
    add("field", field)
    make_field(upstream, field.astype(np.float32) / np.float32(255))
    z, y, x = np.mgrid[0:32, 0:32, 0:32]
    ball = 200 * ((z - 14) ** 2 + (y - 17) ** 2 + (x - 13) ** 2 < 90) + 4 * (x % 9) + 90 * (z + y > 44)
    volume = np.clip(ball + rng.normal(0, 6, ball.shape), 0, 255).astype(np.uint8)
    add("volume", volume)
    make_octrees(upstream, volume.astype(np.float32) / np.float32(255))
    make_filters(rng)
    metadata = {"maker": "tools/golden/make_adaptive_patching.py", "opencv": cv2.__version__,
                "scipy": scipy.__version__, "numpy": np.__version__, "ucf_vit": "c114eeb"}
    save_file(tensors, OUT, metadata)
    print(f"{OUT.name}: {len(tensors)} tensors, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
