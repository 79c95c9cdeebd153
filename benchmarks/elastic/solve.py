#!/usr/bin/env python3
"""How long the solver takes for 1,024 devices of four types, and a simulation of 30 days with 10,000 events on them.

Profiles, cluster and trace are made up, from a seed. Times are the program's own (solver_ms, wall_s).
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TYPES = 4
HOSTS = 256
DEVICES = 4  # of a host
BATCH = 8192
HOURS, EVENTS = 720, 10_000


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def point(batch, concurrent, ms):
    samples = batch * concurrent
    speed = ms * (0.85 if concurrent > 1 else 1)
    return {"local_batch": batch, "concurrent": concurrent, "data_ms": 0.05 * samples, "forward_ms": 2 + speed * samples,
            "backward_ms": 4 + 2 * speed * samples, "update_ms": 3}


def write_profiles(folder):
    for kind in range(TYPES):
        computation = [point(batch, concurrent, 0.2 * (kind + 1)) for concurrent in (1, 2) for batch in (16, 32, 64)]
        put(folder / f"profiles/devices/type{kind}.json", {
            "version": 1, "fingerprint": f"type{kind}", "model": "made up", "dtype": "float32", "memory_bytes": 16 << 30,
            "computation": computation, "memory": [{"local_batch": batch, "max_concurrent": 2} for batch in (16, 32, 64)]})
    put(folder / "profiles/buckets.json", {"version": 1, "model": "made up", "megabytes": [25] * 12 + [8]})
    put(folder / "profiles/communication.json", {"version": 1, "points": [
        {"collective": "all_reduce", "place": place, "ranks": 4, "bytes": size * 2**20, "ms": 0.2 + size * ms}
        for place, ms in (("intra", 0.1), ("inter", 0.2)) for size in (1, 10, 50)]})


def write_trace(folder, seed):
    draw = random.Random(seed)
    hosts = [f"node{i}" for i in range(HOSTS)]
    present = set()
    lines = [{"config": "solve.json", "global_batch": BATCH, "samples": 1e13, "hours": HOURS, "epoch_samples": 1281167 * 100}]
    for i in range(EVENTS):
        hour = i * HOURS / EVENTS
        if i % 20 == 19:
            lines.append({"hour": hour, "event": "price", "type": f"type{draw.randrange(TYPES)}",
                          "price_per_hour": round(draw.uniform(0.5, 4), 2)})
            continue
        host = draw.choice(hosts)
        lines.append({"hour": hour, "event": draw.choice(("leave", "fail")) if host in present else "join", "host": host})
        present ^= {host}
    (folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_cluster(folder):
    put(folder / "cluster.json", {
        f"node{i}": {"type": f"type{i % TYPES}", "number": DEVICES, "intra_network_bandwidth": 1.5e10, "inter_network_bandwidth": 1e10,
                     "price_per_hour": 4.0 - 0.8 * (i % TYPES)} for i in range(HOSTS)})
    put(folder / "solve.json", {"profile_dir": "profiles", "gpu_cluster_info": "cluster.json"})


def ask(program, folder, *words):
    done = subprocess.run([program, "elastic", *words, "--json"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"solve.py: fovea elastic {' '.join(words)}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the trace (default 1)")
    parser.add_argument("--fovea", default=ROOT / "build/release/apps/fovea/fovea", type=pathlib.Path)
    arguments = parser.parse_args()
    program = arguments.fovea.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_profiles(folder)
        write_cluster(folder)
        write_trace(folder, arguments.seed)
        print(f"{HOSTS * DEVICES} devices of {TYPES} types; at most 1000 ms are due")
        for objective in ("time", "0.5", "cost"):
            for batch in (1024, 8192, 32768):
                found = ask(program, folder, "solve", "solve.json", "--global-batch", str(batch), "--objective", objective)
                print(f"  {objective:<5} global batch {batch:>6}: {found['solver_ms']:8.2f} ms -> {len(found['devices']):>5} devices, "
                      f"{found['iteration_ms']:9.1f} ms a step, {found['cost_per_hour']:8.2f} an hour")
        print(f"{HOURS // 24} days with {EVENTS} events; at most 30 s are due")
        for run in ask(program, folder, "simulate", "trace.jsonl", "--policy", "fixed,upstream,ours")["runs"]:
            print(f"  {run['policy']:<9} {run['wall_s']:6.2f} s -> {run['samples']:.3g} samples, cost {run['cost']:.0f}, {run['changes']} changes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
