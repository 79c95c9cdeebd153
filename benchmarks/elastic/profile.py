#!/usr/bin/env python3
"""How near a predicted step comes to a measured one, over batches and shares that were not profiled (docs/elastic.md).

A worker has a thread. `fovea profile` measures powers of two; `fovea elastic solve` predicts, on one and on two workers, the steps of other
batches, of batches in several passes, and of unequal shares (parallel.slots=3 on two workers: 1 to 2), whose slower side is the same passes
on one worker. Measured is `fovea train`: medians over steps, of rounds by turns.

    python3 benchmarks/elastic/profile.py [--rounds 3] [--steps 12]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tools")]
import bench_model  # noqa: E402
import provenance  # noqa: E402
import tiny_run  # noqa: E402

RECIPE = ROOT / "recipes/fashion_mnist/vit.yaml"
COMMON = ["device.threads=1", "device.dtype=float32", "data.drop_last=false"]
LARGEST = 128  # batch that is profiled
FIRST = 3      # steps before those that count
# Workers, batch, slots (0: equal shares).
CASES = [(1, 6, 0), (1, 12, 0), (1, 24, 0), (1, 48, 0), (1, 80, 0), (1, 112, 0), (1, 192, 0),
         (2, 40, 0), (2, 88, 0), (2, 160, 0), (2, 232, 0), (2, 300, 0), (2, 72, 3), (2, 144, 3)]


def ask(args, *words):
    done = subprocess.run([args.fovea, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"profile.py: fovea {' '.join(map(str, words))}: {done.stderr}")
    return json.loads(done.stdout)


def profiled(args):
    return ask(args, "profile", RECIPE, *COMMON, "--out", args.folder / "profiles", "--local-batch", LARGEST, "--json")


def solved(args, kind, workers, batch):
    (args.folder / "cluster.json").write_text(json.dumps(
        {"here": {"type": kind, "number": workers, "intra_network_bandwidth": 1e10, "inter_network_bandwidth": 1e10}}))
    config = args.folder / "solve.yaml"
    config.write_text(f"profile_dir: {args.folder}/profiles\ngpu_cluster_info: {args.folder}/cluster.json\n")
    return ask(args, "elastic", "solve", config, "--global-batch", batch, "--weight-sync", "sequential", "--json")


def predicted(args, kind, workers, batch, slots):
    """-> ms of a step, samples of a pass."""
    if slots == 0:
        found = solved(args, kind, workers, batch)
        if len(found["devices"]) != workers:
            sys.exit(f"profile.py: a batch of {batch} leaves a worker out; choose a larger one")
        return found["iteration_ms"], max(device["micro_batch"] for device in found["devices"])
    # The slower worker has two slots, a pass each.
    parts = solved(args, kind, 1, batch // slots)["parts"]
    a_pass = parts["data_ms"] + parts["forward_ms"] + parts["backward_ms"]
    return 2 * a_pass + parts["update_ms"], batch // slots


def measured(args, workers, batch, slots, micro):
    """-> ms of a step, the median."""
    with tempfile.TemporaryDirectory(dir=args.folder) as run:
        val = (f"data.val={{format: idx, images: {args.folder}/val-images, labels: {args.folder}/val-labels, num_classes: 10, "
               "transforms: [normalize]}")
        subprocess.run([args.fovea, "train", str(RECIPE), *COMMON, f"run.dir={run}/run", f"data.global_batch_size={batch}", val,
                        f"trainer.micro_batch_size={micro}", f"launch.processes={workers}", f"parallel.slots={slots}",
                        f"trainer.max_steps={FIRST + args.steps}", "trainer.max_epochs=null", "trainer.eval_every_steps=1000000",
                        "schedule.warmup_steps=1", "log.every_steps=1", "log.tensorboard=false", "checkpoint.every_steps=1000000"],
                       check=True, capture_output=True)
        lines = [json.loads(line) for line in (pathlib.Path(run) / "run/metrics.jsonl").read_text().splitlines()]
    rates = [line["images_per_second"] for line in lines if line.get("split") == "train" and line["step"] > FIRST]
    return 1000 * batch / statistics.median(rates)


def table_of(predictions, times):
    yield from ["| workers | batch | shares | passes of | predicted, ms | measured, ms | error |", "| --- | --- | --- | --- | --- | --- | --- |"]
    errors = []
    for case, (ms, micro) in predictions.items():
        workers, batch, slots = case
        shares = "1:2" if slots else "equal"
        found = statistics.median(times[case])
        errors.append(abs(ms - found) / found)
        yield f"| {workers} | {batch} | {shares if workers > 1 else ''} | {micro} | {ms:.1f} | {found:.1f} | {100 * (ms / found - 1):+.1f} % |"
    yield from ["", f"Median error {100 * statistics.median(errors):.1f} % (at most 10), largest {100 * max(errors):.1f} %."]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        args.folder = pathlib.Path(name)
        tiny_run.SIDE = 28
        tiny_run.write_images(args.folder, "val", 16, seed=2)
        profile = profiled(args)
        kind = profile["devices"][0]["fingerprint"]
        predictions = {case: predicted(args, kind, *case) for case in CASES}
        times = {case: [] for case in CASES}
        for turn in range(args.rounds):
            for case in bench_model.in_turn(CASES, turn):
                times[case].append(measured(args, *case, predictions[case][1]))
                print(f"{turn}: {case}: predicted {predictions[case][0]:.1f}, measured {times[case][-1]:.1f}; "
                      f"load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print("\n".join([
        "## Predicted steps", "",
        f"{provenance.line()} recipes/fashion_mnist/vit.yaml in float32, a thread a worker; profiled batches: "
        f"{', '.join(map(str, profile['devices'][0]['batches']))}, in {profile['seconds']:.0f} s. {args.rounds} rounds by turns, "
        f"{args.steps} steps each.", "", *table_of(predictions, times)]))


if __name__ == "__main__":
    main()
