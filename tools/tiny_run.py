"""A training of seconds with everything in it that a resume can get wrong, and the comparison of two of them.

For tools/kill_resume, tools/stop_signals and tests/apps/slurm_test.py. The images are made up here, with nothing but the
standard library.
"""
import json
import pathlib
import random
import socket
import struct
import zlib

TIMES = {"images_per_second", "data_wait", "memory_bytes", "comm_wait", "slowest_rank", "slowest_rank_wait", "mfu", "time"}
TRAIN_SAMPLES, BATCH = 96, 16
STEPS_PER_EPOCH = TRAIN_SAMPLES // BATCH
CHECKPOINT_EVERY = 3
SIDE = 8

RECIPE = """\
run: {{dir: {folder}/run, seed: 7}}
device: {{type: cpu, threads: 1}}
model: {{name: vit, img_size: {side}, patch_size: 2, in_chans: 1, num_classes: 4, embed_dim: 64, depth: 3, num_heads: 2,
         drop_path_rate: 0.1, proj_drop_rate: 0.1}}
data:
  train:
    format: idx
    images: {folder}/train-images
    labels: {folder}/train-labels
    transforms: [{{name: random_crop, size: {side}, padding: 1}}, horizontal_flip, normalize]
  val: {{format: idx, images: {folder}/test-images, labels: {folder}/test-labels, transforms: [normalize]}}
  mixup: {{mixup_alpha: 0.2}}
  global_batch_size: {batch}
  threads: 1
optim: {{name: adamw, lr: 0.003}}
schedule: {{name: cosine, warmup_steps: 3}}
trainer: {{max_epochs: {epochs}, micro_batch_size: {micro}, ema: {{enabled: true, decay: 0.9}}}}
checkpoint: {{every_steps: {every}, keep: 2}}
log: {{every_steps: 1, tensorboard: false}}
launch: {{processes: {ranks}, timeout: 60}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def png(pixels, side, channels=1):
    """A file of side x side pixels, row by row: gray, or RGB of 3 channels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = side * channels
    rows = b"".join(b"\0" + pixels[start:start + row] for start in range(0, side * row, row))
    head = struct.pack(">IIBBBBB", side, side, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def children(pid):
    """Of a process: those that it started."""
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def write_images(folder, name, count, seed):
    """An IDX pair of SIDE x SIDE images in four classes."""
    source = random.Random(seed)
    labels = bytes(i % 4 for i in range(count))
    pixels = bytes(40 * (i % 4) + source.randrange(60) for i in range(count) for _ in range(SIDE * SIDE))
    (folder / f"{name}-images").write_bytes(struct.pack(">BBBBIII", 0, 0, 8, 3, count, SIDE, SIDE) + pixels)
    (folder / f"{name}-labels").write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, count) + labels)


def tensors(path):
    """name -> (dtype, shape, bytes) of a safetensors file."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    return {name: (entry["dtype"], entry["shape"], data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items() if name != "__metadata__"}


def outcome(run):
    """All that has to be equal: lines of metrics without times, final weights, and the last checkpoint."""
    lines = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        lines.append({key: repr(value) for key, value in json.loads(line).items() if key not in TIMES})
    last = run / "checkpoints" / (run / "checkpoints/latest").read_text().strip()
    files = {"weights.safetensors": tensors(run / "weights.safetensors")}
    files |= {path.name: tensors(path) for path in sorted(last.glob("*.safetensors"))}
    return lines, files


def differences(expected, found):
    lines, files = expected
    other_lines, other_files = found
    if len(lines) != len(other_lines):
        yield f"metrics.jsonl has {len(other_lines)} lines, expected {len(lines)}"
    for line, other in zip(lines, other_lines):
        if line != other:
            yield f"metrics.jsonl: {other}, expected {line}"
    if files.keys() != other_files.keys():
        yield f"files {sorted(other_files)}, expected {sorted(files)}"
    for name in files.keys() & other_files.keys():
        if files[name].keys() != other_files[name].keys():
            yield f"{name}: other tensors"
        yield from (f"{name}: {tensor} differs" for tensor in files[name].keys() & other_files[name].keys()
                    if files[name][tensor] != other_files[name][tensor])


def write(folder, ranks, micro_batch_size, epochs=4):
    """Images and recipe.yaml, for a run in folder/run."""
    folder.mkdir(parents=True, exist_ok=True)
    write_images(folder, "train", TRAIN_SAMPLES, 1)
    write_images(folder, "test", 30, 2)
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder, side=SIDE, batch=BATCH, epochs=epochs, ranks=ranks,
                                                      every=CHECKPOINT_EVERY, micro=micro_batch_size))
