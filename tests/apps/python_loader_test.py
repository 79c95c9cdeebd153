#!/usr/bin/env python3
"""fovea.data, the loader for Python, as its users meet it: bitwise the program's batches, over the loader's own memory, through
threads, forks and exits, and what it says of bad input.

usage: python_loader_test.py FOLDER FOVEA: a folder with the package (build/release/python), and the program. Skipped (77) where
this Python has no NumPy.
"""
import importlib.util
import json
import multiprocessing
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy
except ImportError:
    print(f"python_loader: Skipped\nskipped: {sys.executable} has no NumPy\n[  SKIPPED ] 1 test")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, sys.argv[1])
import tiny_run  # noqa: E402
import fovea.data  # noqa: E402
from fovea.data import _processor  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it, as a shell does of what is in the background

PATIENCE = 60  # seconds; a busy machine takes its time
BATCHES = 2 * tiny_run.STEPS_PER_EPOCH + 2


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"python_loader_test: {' '.join(map(str, what))}")


def check_raises(kind, *parts, call):
    """`call` raises exactly what its caller may catch, and the message has these parts."""
    try:
        call()
    except kind as error:
        for part in parts:
            check(str(part) in str(error), "expected", part, "in", repr(error))
        return
    check(False, "expected", kind, "with", *parts)


def arrays_of(batch):
    """name -> bytes, of all arrays that a file of `fovea data dump` has."""
    return {name: batch._memory.array(name, "numpy").tobytes() for name in batch._memory.names()}


def take(loader, count):
    """The next batches, over the ends of epochs."""
    while count > 0:
        for batch in loader:
            yield batch
            count -= 1
            if count == 0:
                return


def dump(program, recipe, folder, *options):
    out = folder / "dump.safetensors"
    done = subprocess.run([program, "data", "dump", str(recipe), "--out", str(out), *map(str, options)], capture_output=True,
                          text=True, check=False)
    check(done.returncode == 0, done.stdout, done.stderr)
    batches = {}
    for name, (_, _, data) in tiny_run.tensors(out).items():
        number, _, array = name.partition(".")
        batches.setdefault(int(number), {})[array] = data
    return [batches[number] for number in sorted(batches)]


def check_bitwise(program, recipe, folder):
    """Also on more threads, from the middle of an epoch on, of one rank of two, of validation, and as bytes."""
    expected = dump(program, recipe, folder, "--batches", BATCHES)
    for threads in (0, 1, 3):
        loader = fovea.data.Loader(recipe, threads=threads)
        found = [arrays_of(batch) for batch in take(loader, BATCHES)]
        check(found == expected, threads, "threads: other batches than fovea data dump")
    check("targets" in expected[0], "mixup makes soft targets")

    for stop in (1, tiny_run.STEPS_PER_EPOCH, tiny_run.STEPS_PER_EPOCH + 2):
        loader = fovea.data.Loader(recipe, threads=2)
        batches = take(loader, stop)
        for _ in range(stop):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        other = fovea.data.Loader(recipe)
        other.load_state_dict(state)
        other.set_epoch(state["epoch"])  # as loops over epochs do
        found = [arrays_of(batch) for batch in take(other, BATCHES - stop)]
        check(found == expected[stop:], "after", stop, "batches a resumed loader has others")
    other.set_epoch(1)
    check(arrays_of(next(iter(other))) == expected[tiny_run.STEPS_PER_EPOCH], "set_epoch(1) starts elsewhere")

    half = dump(program, recipe, folder, "--batches", 3, "--ranks", 2, "--rank", 1)
    loader = fovea.data.Loader(recipe, rank=1, world_size=2, batch_size=tiny_run.BATCH // 2)
    check([arrays_of(batch) for batch in take(loader, 3)] == half, "rank 1 of 2 has other rows")
    val = dump(program, recipe, folder, "--batches", 2, "--section", "val")
    loader = fovea.data.Loader(recipe, section="val")
    check([arrays_of(batch) for batch in loader] == val and len(loader) == 2, "validation differs")
    plain = ["data.mixup.mixup_alpha=0", "--uint8"]
    loader = fovea.data.Loader(recipe, pixels="uint8", mixup={"mixup_alpha": 0})
    check([arrays_of(next(iter(loader)))] == dump(program, recipe, folder, *plain), "bytes differ")
    check(next(iter(loader)).mean == [0.5] and loader.class_names == [], "normalize says 0.5")


def check_memory(recipe):
    """Arrays lie where the loader has filled them; the memory comes back, and stays as long as an array does."""
    loader = fovea.data.Loader(recipe, prefetch=3)
    seen = set()
    kept = None
    for _ in range(20):
        for batch in loader:
            images, target = batch
            check(images.ctypes.data == batch._memory.address("images") and images is batch.images, "images were copied")
            check(target is batch.targets and batch["labels"].dtype == numpy.int64 and batch["masks"] is None, "target")
            seen.add(images.ctypes.data)
            if kept is None:
                kept, value = images, images.copy()
    check(len(seen) <= 9, len(seen), "buffers: expected 3 ahead, 2 in hand, 1 that is kept, 3 to spare")
    check(numpy.array_equal(kept, value), "a batch that was kept has changed")
    state = loader.state_dict()
    loader.close()
    check(numpy.array_equal(kept, value), "a batch that was kept has changed with close()")
    for call in (lambda: next(iter(loader)), loader.state_dict, lambda: loader.load_state_dict(state)):
        check_raises(fovea.data.Error, "this loader is closed", "make another Loader", call=call)
    del batch, images, target, kept


def check_growth(recipe):
    """10,000 batches, the first thousand of which set the limit."""
    def go_over(loader, batches):
        for batch in take(loader, batches):
            batch.images, batch.labels

    with fovea.data.Loader(recipe) as loader:
        go_over(loader, 1000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        go_over(loader, 9000)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    check(grown < 2048, f"memory has grown by {grown} KiB in 9,000 batches")


def check_epochs(recipe):
    loader = fovea.data.Loader(recipe)
    check(len(loader) == tiny_run.STEPS_PER_EPOCH and loader.num_classes == 4, len(loader), loader.num_classes)
    epochs = [[batch.indices.tolist() for batch in loader] for _ in range(2)]
    check(all(sorted(sum(epoch, [])) == list(range(tiny_run.TRAIN_SAMPLES)) for epoch in epochs), "each sample once an epoch")
    check(epochs[0] != epochs[1], "epochs are in the same order")
    for batch in loader:
        break  # the next loop is the next epoch, not the rest of this one
    check([batch.epoch for batch in loader] == [3] * tiny_run.STEPS_PER_EPOCH, "after a break the next epoch")
    loader.sampler.set_epoch(1)  # as loops do that have a DataLoader
    check([batch.indices.tolist() for batch in loader] == epochs[1] and len(loader.dataset) == tiny_run.TRAIN_SAMPLES, "set_epoch")
    pairs = list(fovea.data.Loader(recipe, yields="pair"))
    check(type(pairs[0]) is tuple and pairs[0][0].shape == (tiny_run.BATCH, 1, 8, 8), pairs[0])
    dicts = next(iter(fovea.data.Loader(recipe, yields={"image": "images", "label": "labels"})))
    check(set(dicts) == {"image", "label"} and dicts["label"].shape == (tiny_run.BATCH,), dicts)
    check("train-images" in loader.describe(5), loader.describe(5))


def check_threads(recipe):
    loader = fovea.data.Loader(recipe, threads=2)
    iteration, found = iter(loader), []

    def work():
        found.extend(batch.indices.tolist() for batch in iteration)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    check(sorted(sum(found, [])) == list(range(tiny_run.TRAIN_SAMPLES)), "four threads share an epoch")


def in_spawned(loader, indices):
    indices.put([batch.indices.tolist() for batch in loader])


def in_forked(loader, messages):
    try:
        messages.put(next(iter(loader)).indices.tolist())
    except RuntimeError as error:
        messages.put(str(error))


def answer_of(context, target, loader):
    queue = context.Queue()
    process = context.Process(target=target, args=(loader, queue))
    process.start()
    answer = queue.get(timeout=PATIENCE)
    process.join(PATIENCE)
    check(process.exitcode == 0, "a child ended with", process.exitcode)
    return answer


def check_processes(recipe):
    fork, spawn = multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")
    loader = fovea.data.Loader(recipe)
    first = answer_of(fork, in_forked, loader)  # before the parent has begun it may
    batches = iter(loader)
    check(next(batches).indices.tolist() == first, "a forked child has another first batch")
    check("forked" in (said := answer_of(fork, in_forked, loader)), said)
    rest = [batch.indices.tolist() for batch in batches]
    loader = pickle.loads(pickle.dumps(loader))
    loader.load_state_dict({**loader.state_dict(), "position": tiny_run.BATCH})
    check(answer_of(spawn, in_spawned, loader) == rest, "a spawned child has other batches")


ENDS = {  # what is run -> how it ends
    "for batch in loader: break": 0,  # the interpreter ends in the middle of an epoch
    "batches = iter(loader); kept = [next(batches), next(batches).images]; sys.exit(3)": 3,
    "next(iter(loader)); os.fork() or sys.exit(0); sys.exit(os.wait()[1])": 0,
    "for batch in loader: raise ValueError('of the loop')": 1,
    "threading.Thread(target=lambda: [list(loader) for _ in range(9)], daemon=True).start(); next(iter(loader))": 0,
}


def check_ends(folder, recipe):
    head = f"import os, sys, threading; sys.path.insert(0, {sys.argv[1]!r}); import fovea.data; " \
        f"loader = fovea.data.Loader({str(recipe)!r}, threads=2)\n"
    running = [(code, subprocess.Popen([sys.executable, "-c", head + what], stderr=subprocess.PIPE, text=True), what)
               for what, code in ENDS.items()]
    for code, process, what in running:
        _, errors = process.communicate(timeout=PATIENCE)
        check(process.returncode == code, what, "ended with", process.returncode, errors)
    endless = subprocess.Popen([sys.executable, "-c", head + "print('on', flush=True)\nwhile True:\n  for batch in loader: pass"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    endless.stdout.readline()
    time.sleep(0.05)
    endless.send_signal(signal.SIGINT)
    _, errors = endless.communicate(timeout=PATIENCE)
    check("KeyboardInterrupt" in errors and endless.returncode in (1, -signal.SIGINT), endless.returncode, errors)


def check_formats(folder):
    """Volumes, tiles and adaptive patches: what files hold."""
    generator = numpy.random.default_rng(3)
    scans = folder / "scans"
    scans.mkdir()
    volumes = [generator.random((8, 8, 8), dtype=numpy.float32) for _ in range(3)]
    for i, volume in enumerate(volumes):
        numpy.save(scans / f"scan{i}.npy", volume)
        numpy.save(scans / f"mask{i}.npy", (volume > 0.5).astype(numpy.uint8))
    loader = fovea.data.Volumes(scans, format="npy", images="scan*.npy", masks="mask*.npy", num_classes=2, section="val",
                                batch_size=2)
    batches = list(loader)
    check([len(batch) for batch in batches] == [2, 1] and loader.has_masks, batches)
    check(numpy.array_equal(batches[0].images[1, 0], volumes[1]), "volumes differ from their files")
    check(numpy.array_equal(batches[1].target[0], volumes[2] > 0.5), "masks differ from their files")
    tiles = fovea.data.Volumes(scans, format="npy", images="scan*.npy", section="val", batch_size=4, tiling={"tile_size": [4, 4, 4]})
    batch = next(iter(tiles))
    check(tiles.num_samples == 24 and numpy.array_equal(batch.images[0, 0], volumes[0][:4, :4, :4]), "tiles differ")
    patched = fovea.data.Volumes(scans, format="npy", images="scan*.npy", batch_size=2, tiling={"tile_size": [8, 8, 8]},
                                 adaptive_patching={"fixed_length": 15, "patch_size": 2})
    batch = next(iter(patched))
    check(batch.tokens.shape == (2, 1, 15, 8) and batch.patch_centers.shape == (2, 1, 15, 3), batch.tokens.shape)
    check(batch.tokens.ctypes.data == batch._memory.address("patches.tokens"), "tokens were copied")


def check_folder(folder):
    photos = folder / "photos"
    for name, value in (("cat", 40), ("dog", 200)):
        (photos / name).mkdir(parents=True)
        for i in range(3):
            (photos / name / f"{i}.png").write_bytes(tiny_run.png(bytes([value] * 64), 8))
    loader = fovea.data.ImageFolder(photos, batch_size=2, section="val", transforms=[{"name": "normalize", "mean": [0], "std": [1]}])
    images, labels = next(iter(loader))
    check(images.shape == (2, 3, 8, 8) and numpy.allclose(images, 40 / 255) and labels.tolist() == [0, 0], images, labels)
    check(loader.class_names == ["cat", "dog"] and loader.num_samples == 6, loader)
    (photos / "dog/1.png").write_bytes((photos / "dog/1.png").read_bytes()[:50])
    with fovea.data.ImageFolder(photos, batch_size=6) as damaged:
        check_raises(fovea.data.DataError, photos / "dog/1.png", call=lambda: next(iter(damaged)))
    with fovea.data.ImageFolder(photos, batch_size=6, bad_samples={"policy": "skip", "budget": 1}) as skips:
        batch = next(iter(skips))
        check(sorted(batch.weights.tolist()) == [0, 1, 1, 1, 1, 1] and skips.bad_samples[0][1].endswith("dog/1.png"), skips.bad_samples)
        check(json.loads(json.dumps(skips.state_dict()))["bad_samples"][0][3] == 1, skips.state_dict())
    return photos


def check_jax(recipe):
    """The same values, which stay when the loader goes on."""
    if importlib.util.find_spec("jax") is None:
        print(f"python_loader: Skipped\nskipped: {sys.executable} has no jax\n[  SKIPPED ] 1 test")
        return
    import jax
    count = 2 * tiny_run.STEPS_PER_EPOCH
    kept = list(take(fovea.data.Loader(recipe, threads=2, output="jax"), count))
    for batch, expected in zip(kept, take(fovea.data.Loader(recipe), count)):
        for name in ("images", "labels", "targets", "weights"):
            array = batch[name]
            check(isinstance(array, jax.Array) and array.devices() == {jax.devices()[0]}, name, type(array))
            check(numpy.array_equal(numpy.asarray(array), expected[name]), name, "of JAX differs")
        check(batch.masks is None and batch.labels.dtype == jax.numpy.arange(1).dtype, "dtypes are not JAX's", batch.labels.dtype)


def check_refusals(recipe, photos, folder):
    make = fovea.data.ImageFolder
    check_raises(FileNotFoundError, folder / "none", call=lambda: make(folder / "none"))
    check_raises(RuntimeError, folder / "none", call=lambda: make(folder / "none"))
    check_raises(fovea.data.MissingFileError, "no.yaml", call=lambda: fovea.data.Loader(folder / "no.yaml"))
    check_raises(TypeError, "root: found an array of shape (3,) and dtype float64; expected a path", call=lambda: make(numpy.zeros(3)))
    check_raises(TypeError, "transforms.0.size: found an array of shape (3,)",
                 call=lambda: make(photos, transforms=[{"name": "resize", "size": numpy.zeros(3)}]))
    check_raises(ValueError, "transformz", "transforms", call=lambda: make(photos, transformz=["horizontal_flip"]))
    check_raises(ValueError, "did you mean batch_size?", call=lambda: make(photos, batch_sizes=2))
    check_raises(ValueError, "num_workers", "threads", call=lambda: make(photos, num_workers=2))
    check_raises(ValueError, "data.threads", '"4" (quoted string)', call=lambda: make(photos, threads="4"))
    check_raises(ValueError, "horizontal_flip", call=lambda: make(photos, transforms=["horizontal_flop"]))
    check_raises(ValueError, "rank=2", call=lambda: make(photos, rank=2, world_size=2))
    check_raises(ValueError, "output='tensor'", call=lambda: make(photos, output="tensor"))
    check_raises(ValueError, "batch_size", call=lambda: make(photos, batch_size=2, global_batch_size=2))
    check_raises(ValueError, "pin_memory", call=lambda: make(photos, pin_memory=True))
    check_raises(ValueError, "pixels='uint8'", call=lambda: fovea.data.Loader(recipe, pixels="uint8"))
    check_raises(ValueError, "data.val", call=lambda: fovea.data.Loader({"data": {}}, section="val"))

    loader = fovea.data.Loader(recipe)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    check_raises(RuntimeError, "another iteration", call=lambda: next(first))
    state = loader.state_dict()
    check_raises(ValueError, "global_batch_size is 16", call=lambda: fovea.data.Loader(recipe, batch_size=8).load_state_dict(state))
    check_raises(ValueError, "no batch starts there", call=lambda: loader.load_state_dict({**state, "position": 5}))
    check_raises(ValueError, "no 'position'", call=lambda: loader.load_state_dict({key: state[key] for key in state
                                                                                  if key != "position"}))
    next(second)  # nothing of these has changed it
    check_raises(ImportError, "x86_64 without AVX2", "another machine",
                 call=lambda: _processor.refuse("x86_64", _processor.flags_of("model name : old\nflags\t\t: fpu sse2 avx\n")))
    check_raises(ImportError, "aarch64", call=lambda: _processor.refuse("aarch64", set()))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tiny_run.write(folder / "tiny", ranks=1, micro_batch_size=16)
        recipe = folder / "tiny/recipe.yaml"
        check_bitwise(sys.argv[2], recipe, folder)
        check_memory(recipe)
        check_growth(recipe)
        check_epochs(recipe)
        check_threads(recipe)
        check_processes(recipe)
        check_ends(folder, recipe)
        check_formats(folder)
        check_refusals(recipe, check_folder(folder), folder)
        check_jax(recipe)  # last: its threads do not bear a fork


if __name__ == "__main__":
    main()
