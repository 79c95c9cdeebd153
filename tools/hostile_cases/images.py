"""Images: JPEG, PNG and TIFF files, and the folders, lists, tars and packed shards that hold them."""
import gzip
import re
import struct
import zlib

from . import layers
from .layers import png_chunk, tar_of
from .originals import CORPUS, IMAGES, Original, corpus, fovea, put, recipe

PACK = "data pack {} --raw --out packed --threads 1"
CHECK = "data check {} --threads 1"
INSPECT = "data inspect {} --json --out inspect --threads 1"


def readers(source):
    return [PACK.format(source), CHECK.format(source), INSPECT.format(source)]


def png(side=9, channels=3, seed=1, below=256):
    """An RGB or gray PNG, whose IDAT is in two parts; pixels are below a number."""
    kind = {1: 0, 3: 2}[channels]
    rows = b"".join(b"\0" + bytes((seed * 31 + 7 * x * y + 11 * c) % below for x in range(side) for c in range(channels))
                    for y in range(side))
    packed = zlib.compress(rows)
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, kind, 0, 0, 0))
            + png_chunk(b"IDAT", packed[:20]) + png_chunk(b"IDAT", packed[20:]) + png_chunk(b"IEND", b""))


def photos(folder, program):
    """Class folders, with one image of each kind, and a model to look at them with."""
    del program
    put(folder / "look.yaml", recipe("format: folder, path: photos", transforms=IMAGES, classes=2))
    for name in ("jpeg_420", "jpeg_progressive", "jpeg_exif_6"):
        put(folder / f"photos/cat/{name}.jpg", corpus(f"first_crop_fuzz/{name}")[4:])
    for name in ("png_rgb", "png_palette", "png_gray16"):
        put(folder / f"photos/dog/{name}.png", corpus(f"png_fuzz/{name}"))
    put(folder / "photos/dog/two_parts.png", png())
    for name in ("bilevel_group4", "jpeg_ycbcr", "palette", "rgb_lzw_tiles"):
        put(folder / f"photos/cat/{name}.tif", corpus(f"tiff_decode_fuzz/{name}.tif"))
    for name in ("webp_lossy", "webp_exif_6", "bmp_24", "bmp_rle8"):
        kind = name.partition("_")[0]
        put(folder / f"photos/cat/{name}.{kind}", corpus(f"{kind}_fuzz/{name}"))


def image_original(name, path, **options):
    look = f"predict look.yaml {path} --json --threads 1"
    explain = f"explain look.yaml {path} --out maps --threads 1"
    return Original(name, "photos", path, [*readers("photos"), look, look, explain, f"data patch {path} --out patches "
                    "fixed_length=16 patch_size=4 --picture-side 16"], may_be_renamed=True, **options)


def tiffs(folder, program):
    del program
    for name in ("strips_deflate", "strips_lzw_16", "strips_packbits", "tiles_jpeg", "tiles_lzw_rgb", "tiles_none"):
        put(folder / f"{name}.tif", corpus(f"tiff_fuzz/{name}.tif"))


def tiff_original(name, **options):
    return Original(f"tiff {name}", "tiffs", f"{name}.tif", [f"data patch {name}.tif --out patches fixed_length=16 patch_size=4 "
                    "--picture-side 16"], **options)


def patches(folder, program):
    """A sequence file of `data patch`, and values for its patches."""
    put(folder / "image.png", png(32, 1))
    fovea(program, folder, "data", "patch", "image.png", "--out", "patches", "fixed_length=16", "patch_size=4",
          "--picture-side", "0")
    header = b'{"values":{"dtype":"F32","shape":[16,2],"data_offsets":[0,128]}}'
    put(folder / "values.safetensors", struct.pack("<Q", len(header)) + header + struct.pack("<32f", *range(32)))


UNPATCH = ["data unpatch patches values.safetensors --out map.tif"]


def shards(folder, program):
    """WebDataset tars with labels of both kinds, and their indexes."""
    for shard in range(2):
        files = []
        for i in range(3):
            files += [(f"{shard}{i:03}.png", png(seed=i)), (f"{shard}{i:03}.cls", str(i % 2).encode()),
                      (f"{shard}{i:03}.json", b'{"class_id": %d}' % (i % 2))]
        put(folder / f"shards/train-{shard}.tar", tar_of(files))
    fovea(program, folder, "data", "index", "shards")
    put(folder / "cls.yaml", recipe("format: wds, path: shards"))
    put(folder / "json.yaml", recipe("format: wds, path: shards, label: json, label_key: class_id"))
    put(folder / "labels/train-0.tar", tar_of([("a.png", png()), ("a.cls", b"1"), ("b.png", png()), ("b.cls", b"0")]))


def lists(folder, program):
    """Every kind of list of images."""
    del program
    for i in range(4):
        put(folder / f"images/{i}.png", png(seed=i))
        put(folder / f"masks/{i}.png", png(channels=1, below=2))
    rows = (f"images/{i}.png,{'cat' if i % 2 else 'dog'},masks/{i}.png\n" for i in range(4))
    put(folder / "list.csv", "path,label,mask\n" + "".join(rows))
    put(folder / "list.jsonl", "".join(f'{{"path": "images/{i}.png", "label": {i % 2}}}\n' for i in range(4)))
    put(folder / "csv.yaml", recipe("format: list, path: list.csv, class_names: [cat, dog]"))
    put(folder / "jsonl.yaml", recipe("format: list, path: list.jsonl"))
    put(folder / "tiny/wnids.txt", "n01\nn02\n")
    put(folder / "tiny/words.txt", "n01\tfish\nn02\tbird, fowl\n")
    for name in ("n01", "n02"):
        put(folder / f"tiny/train/{name}/images/{name}_0.JPEG", corpus("first_crop_fuzz/jpeg_420")[4:])
    for i in range(2):
        put(folder / f"tiny/val/images/val_{i}.JPEG", corpus("first_crop_fuzz/jpeg_420")[4:])
    put(folder / "tiny/val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\t9\t9\nval_1.JPEG\tn02\t0\t0\t9\t9\n")
    put(folder / "tiny.yaml", recipe("format: tiny_imagenet, path: tiny, split: val"))


def packed(folder, program):
    photos(folder, program)
    fovea(program, folder, "data", "pack", "photos", "--out", "packed_in")
    put(folder / "packed.yaml", recipe("format: packed, path: packed_in"))


def imagenet(folder, program):
    """The publisher's archives, of one image a class and three for validation."""
    del program
    jpeg = corpus("first_crop_fuzz/jpeg_420")[4:]
    table = (CORPUS.parents[2] / "fovea/data_tools/prepare/imagenet_classes.cc").read_text()
    wnids = re.findall(r"n\d{8}(?= )", table)
    train = [(f"{wnid}.tar", tar_of([(f"{wnid}_7.JPEG", jpeg)])) for wnid in wnids]
    put(folder / "train.tar", tar_of(train))
    put(folder / "val.tar", tar_of([(f"ILSVRC2012_val_0000000{i}.JPEG", jpeg) for i in (2, 1, 3)]))
    data = "ILSVRC2012_devkit_t12/data/"
    devkit = tar_of([(data + "ILSVRC2012_validation_ground_truth.txt", b"2\n1\n2\n")])
    put(folder / "devkit.tar.gz", gzip.compress(devkit, mtime=0))


OTHERS = ["cannot open the file", "not an image"]  # lists name other files, which are no images then
PREPARE = ["data prepare imagenet train.tar val.tar devkit.tar.gz --out imagenet --to packed --raw --threads 1",
           "data prepare imagenet train.tar val.tar devkit.tar.gz --out imagenet --to folder --threads 1"]
GROUPS = {"photos": photos, "tiffs": tiffs, "patches": patches, "shards": shards, "lists": lists, "packed": packed,
          "imagenet": imagenet}
PNG = {"is_checked": True, "layers": (layers.whole, layers.whole, layers.png_content, layers.png_rows)}
TAR = {"layers": (layers.whole, layers.tar_header, layers.tar_member)}
TAR_GZ = (layers.whole, *(layers.within(layers.gzipped, layer) for layer in (layers.whole, layers.tar_header, layers.tar_member)))
ORIGINALS = [
    image_original("jpeg", "photos/cat/jpeg_420.jpg"),
    image_original("jpeg progressive", "photos/cat/jpeg_progressive.jpg"),
    image_original("jpeg exif", "photos/cat/jpeg_exif_6.jpg"),
    image_original("png", "photos/dog/png_rgb.png", **PNG),
    image_original("png two parts", "photos/dog/two_parts.png", **PNG),
    image_original("png palette", "photos/dog/png_palette.png", **PNG),
    image_original("png 16 bit", "photos/dog/png_gray16.png", **PNG),
    image_original("webp", "photos/cat/webp_lossy.webp"), image_original("webp exif", "photos/cat/webp_exif_6.webp"),
    image_original("bmp", "photos/cat/bmp_24.bmp"), image_original("bmp runs", "photos/cat/bmp_rle8.bmp"),
    image_original("tiff image, fax", "photos/cat/bilevel_group4.tif"),
    image_original("tiff image, jpeg", "photos/cat/jpeg_ycbcr.tif"),
    image_original("tiff image, palette", "photos/cat/palette.tif"),
    image_original("tiff image, tiles", "photos/cat/rgb_lzw_tiles.tif"),
    tiff_original("strips_deflate"), tiff_original("strips_lzw_16"), tiff_original("strips_packbits"),
    tiff_original("tiles_jpeg"), tiff_original("tiles_lzw_rgb"), tiff_original("tiles_none"),
    Original("sequence file", "patches", "patches/patches.safetensors", UNPATCH, layers=(layers.whole, layers.safetensors)),
    Original("sequence values", "patches", "values.safetensors", UNPATCH, layers=(layers.whole, layers.safetensors)),
    Original("wds tar", "shards", "shards/train-0.tar", readers("cls.yaml") + readers("json.yaml")
             + ["data index shards --out index", "data check shards --threads 1"], **TAR),
    Original("wds index", "shards", "shards/train-0.idx", readers("cls.yaml"), is_text=True, also_named=["train-0.tar"]),
    Original("wds tar without index", "shards", "labels/train-0.tar", readers("labels"), also_named=["labels: "], **TAR),
    Original("list csv", "lists", "list.csv", [CHECK.format("csv.yaml"), INSPECT.format("csv.yaml")], is_text=True,
             also_named=OTHERS),
    Original("list jsonl", "lists", "list.jsonl", readers("jsonl.yaml"), is_text=True, also_named=OTHERS),
    Original("list mask png", "lists", "masks/0.png", [CHECK.format("csv.yaml"), INSPECT.format("csv.yaml")], **PNG),
    Original("tiny_imagenet wnids", "lists", "tiny/wnids.txt", readers("tiny.yaml"), is_text=True,
             also_named=[*OTHERS, "tiny/val/", "tiny/train/"]),
    Original("tiny_imagenet words", "lists", "tiny/words.txt", readers("tiny.yaml"), is_text=True, also_named=OTHERS),
    Original("tiny_imagenet annotations", "lists", "tiny/val/val_annotations.txt", readers("tiny.yaml"), is_text=True,
             also_named=OTHERS),
    Original("packed shard", "packed", "packed_in/shard_000000.fvp", [*readers("packed_in"), *readers("packed.yaml")],
             is_checked=True),
    Original("packed manifest", "packed", "packed_in/manifest.json", [*readers("packed_in"), *readers("packed.yaml")],
             is_text=True),
    Original("packed plan", "packed", "packed_in/plan.json", ["data pack photos --out packed_in"], is_text=True, may_move=False),
    Original("imagenet train tar", "imagenet", "train.tar", PREPARE, **TAR),
    Original("imagenet val tar", "imagenet", "val.tar", PREPARE, **TAR),
    Original("imagenet devkit", "imagenet", "devkit.tar.gz", PREPARE, is_checked=True, layers=TAR_GZ, also_named=["the devkit"]),
]
