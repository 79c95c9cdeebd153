"""Recipes, and every file of a run folder."""
import json
import pathlib
import shutil
import sys

from . import layers
from .arrays import floats, npy
from .images import png
from .originals import IMAGES, Original, corpus, fovea, put
from .weights import SAFETENSORS, safetensors

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tiny_run  # noqa: E402


def run(folder, program):
    """A run that has four steps left: the end of it is taken away."""
    tiny_run.write(folder, ranks=1, micro_batch_size=8, epochs=2)
    text = (folder / "recipe.yaml").read_text().replace(str(folder) + "/", "").replace("keep: 2", "keep: 10")
    text = text.replace("transforms: [normalize]", f"transforms: [{IMAGES}]").replace("tensorboard: false", "tensorboard: true")
    text = text.replace("-labels,", "-labels, class_names: [ant, bee, cat, dog],").replace("train-labels\n", "train-labels\n"
                        "    class_names: [ant, bee, cat, dog]\n")
    put(folder / "recipe.yaml", text)
    fovea(program, folder, "train", "recipe.yaml")
    put(folder / "image.png", png(channels=1))
    put(folder / "tensor.npy", npy((2, 1, 8, 8), "<f4", floats(128)))
    put(folder / "tensor.safetensors", safetensors({"images": ("F32", [2, 1, 8, 8], floats(128))}))
    put(folder / "short.yaml", text.replace("dir: run", "dir: new_run"))
    put(folder / "growing.yaml", "- {position: 16, size: 24}\n- {position: 64, size: 32}\n")
    put(folder / "full.yaml", fovea(program, folder, "config", "show", "short.yaml"))
    shutil.copy(folder / "run/weights.safetensors", folder / "weights.safetensors")
    for path in (folder / "run").glob("events.out.tfevents.*"):
        path.rename(path.with_name("events.out.tfevents.1"))


def stopped(folder, program):
    run(folder, program)
    checkpoints = folder / "run/checkpoints"
    shutil.rmtree(checkpoints / "step_00000012")
    for name in ("latest", "best"):
        put(checkpoints / name, "step_00000009" if name == "latest" else "step_00000006")
    (folder / "run/weights.safetensors").unlink()
    put(folder / "run/stopped", "step 9\n")


def elastic(folder, _program):
    """What two workers of an elastic run wrote over two epochs of 24 samples."""
    for worker, part in (("a", slice(0, 4)), ("b", slice(4, 8))):
        lines = []
        for step in range(6):
            ids = [(5 * position + step // 3) % 24 for position in range(step * 8, step * 8 + 8)]
            lines.append({"generation": 1, "step": step, "position": step * 8, "ids": ids[part]})
        put(folder / f"elastic/samples/{worker}.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    put(folder / "elastic/metrics.jsonl", "".join(json.dumps({
        "step": step, "epoch": step / 3, "split": "train", "loss": 0.5, "generation": 1, "global_batch": 8, "images_per_second": 80,
        "time": 1.79e9 + step / 10}) + "\n" for step in range(1, 7)))
    put(folder / "elastic/config.yaml", "parallel: {slots: 8}\nelastic: {shares: equal}\n")
    measured = [{"worker": worker, "rows": 4, "own_ms": 90, "comm_ms": 10, "steps": 6} for worker in "ab"]
    times = dict.fromkeys(("detect_s", "agree_s", "groups_s", "relay_s", "pause_s"), 0.5)
    counts = dict.fromkeys(("bytes_from_peers", "bytes_from_checkpoint", "steps_lost"), 0)
    put(folder / "elastic/events.jsonl", json.dumps({"generation": 1, "reason": "start", "workers": ["a", "b"], "step": 0,
                                                     "position": 0, **times, **counts, "time": 1.79e9, "global_batch": 8, "rows": [4, 4],
                                                     "measured": measured}) + "\n")


def devices(folder, _program):
    """Profiles of a model, ours and JABAS's, and a trace of the cluster that they are of."""
    for name in ("device", "buckets", "communication"):
        target = "devices/cpu.json" if name == "device" else f"{name}.json"
        put(folder / "profiles" / target, corpus(f"profile_fuzz/{name}.json"))
    host = {"number": 2, "intra_network_bandwidth": 1e10, "inter_network_bandwidth": 1e9, "price_per_hour": 1.5}
    put(folder / "cluster.json", json.dumps({"node0": {"type": "cpu x2", **host}, "node1": {"type": "cpu x2", **host}}, indent=1))
    put(folder / "solve.yaml", "profile_dir: profiles\ngpu_cluster_info: cluster.json\nbatch_size_lower_bound: 16\n"
                               "batch_size_upper_bound: 64\nresource_alloc_unit: 2gpu\n")
    put(folder / "trace.jsonl", '{"config": "solve.yaml", "global_batch": 64, "samples": 1e8, "hours": 24}\n'
                                '{"hour": 0, "event": "join", "host": "node0"}\n{"hour": 1, "event": "join", "host": "node1"}\n'
                                '{"hour": 2, "event": "price", "type": "cpu x2", "price_per_hour": 0.5}\n'
                                '{"hour": 3, "event": "fail", "host": "node0"}\n')
    jabas = {"comp/8/node0/vit_8_1_comp_profile.json": "comp.json", "mem/8/node0/max_memory_profile_info.json": "memory.json",
             "bucket/vit.json": "buckets.json", "comm/inter_comm_profile_data.txt": "comm.txt"}
    for target, name in jabas.items():
        put(folder / "jabas" / target, corpus(f"profile_fuzz/jabas_{name}"))
    put(folder / "jabas/cluster.json", json.dumps({"node0": {"type": "T", **host}}))
    put(folder / "jabas.json", json.dumps({
        "comp_profile_dir": "jabas/comp", "memory_profile_dir": "jabas/mem", "comm_profile_dir": "jabas/comm",
        "bucket_profile_dir": "jabas/bucket", "gpu_cluster_info": "jabas/cluster.json", "available_servers": ["node0"],
        "resource_alloc_unit": "1gpu"}))


SOLVE = ["elastic solve solve.yaml --global-batch 32 --json", "elastic solve solve.yaml --global-batch 32 --upstream",
         "profile show solve.yaml --out page.html"]
JABAS = ["elastic solve jabas.json --global-batch 32 --json", "elastic solve jabas.json --global-batch 32 --upstream"]
SIMULATE = ["elastic simulate trace.jsonl --policy fixed,upstream,ours --out page.html", "elastic simulate trace.jsonl --json"]
REPLAY = ["elastic simulate elastic", "elastic simulate elastic --policy elastic,ours --first-part 0.5 --json"]
AUDIT = ["elastic audit elastic", "elastic audit elastic --json", "elastic audit elastic --num-samples 24"]
RUN = ["eval run --threads 1", "report run --out page.html", "config show run", "summary run",
       "predict run image.png --threads 1", "export run out.onnx", "convert run out.safetensors", "plan run --gpus 2",
       "explain run image.png --out maps"]
LATEST = ["eval run --checkpoint latest --threads 1", "convert run out.safetensors --checkpoint latest",
          "predict run image.png --checkpoint latest --threads 1"]
RESUME = ["train run", "train recipe.yaml"]
BOUNDED = "trainer.max_steps=2 trainer.max_epochs=null schedule.warmup_steps=1"
TRAIN_SHORT = f"train short.yaml {BOUNDED}"
GROWING = "data.batch_schedule=growing.yaml data.drop_last=false"
RECIPE = ["config show {}", "summary {}", "plan {} --gpus 4", "eval {} --threads 1", "data check {} --threads 1",
          f"train {{}} {BOUNDED}", "config diff {} recipe.yaml",
          "predict {} image.png --threads 1"]
WEIGHTS = ["predict weights.safetensors image.png --threads 1", "convert weights.safetensors out.pth",
           "eval recipe.yaml --weights weights.safetensors", "export weights.safetensors out.onnx",
           f"{TRAIN_SHORT} init.weights=weights.safetensors"]


TENSORS = ["predict weights.safetensors tensor.npy --out logits.npy", "explain weights.safetensors tensor.npy --out maps"]


def of_run(name, commands, group="run", **options):
    return Original(f"run/{name}", group, f"run/{name}", commands, **options)


def resumed(name, **options):
    return of_run(name, RESUME, "stopped", may_move=False, **options)


GROUPS = {"run": run, "stopped": stopped, "elastic": elastic, "devices": devices}
CHECKPOINT = "checkpoints/step_00000009"
ORIGINALS = [
    Original("recipe", "run", "short.yaml", [command.format("short.yaml") for command in RECIPE], is_text=True),
    Original("resolved recipe", "run", "full.yaml", [command.format("full.yaml") for command in RECIPE], is_text=True),
    Original("batch schedule", "run", "growing.yaml", [f"{TRAIN_SHORT} {GROWING}", f"plan short.yaml {GROWING} --gpus 2"],
             is_text=True),
    Original("weights of a run", "run", "weights.safetensors", WEIGHTS, **SAFETENSORS),
    Original("tensor npy", "run", "tensor.npy", TENSORS),
    Original("tensor safetensors", "run", "tensor.safetensors", [command.replace("npy", "safetensors") for command in TENSORS],
             **SAFETENSORS),
    of_run("config.yaml", RUN, is_text=True),
    of_run("weights.safetensors", RUN, **SAFETENSORS),
    of_run("metrics.jsonl", ["report run --out page.html", "report run --out page.html --json"], is_text=True),
    of_run("evaluation.json", ["report run --out page.html"], is_text=True),
    of_run("machine.json", ["report run --out page.html"], is_text=True),
    of_run("train.log", ["report run --out page.html"], is_text=True),
    of_run("checkpoints/best", ["eval run --checkpoint best --threads 1", "report run --out page.html"], is_text=True),
    of_run("checkpoints/latest", LATEST, is_text=True),
    of_run("checkpoints/step_00000012/manifest.json", LATEST, is_text=True, is_checked=True,
           layers=(layers.whole, layers.manifest, layers.manifest)),
    of_run("checkpoints/step_00000012/ema-00000.safetensors", LATEST, is_checked=True, **SAFETENSORS),
    Original("samples of a worker", "elastic", "elastic/samples/a.jsonl", AUDIT, is_text=True, may_be_renamed=True,
             also_named=("NOT ok", '"ok":false', "elastic/samples")),
    Original("events of a run", "elastic", "elastic/events.jsonl", [*AUDIT, *REPLAY, "report elastic --out page.html"], is_text=True),
    Original("metrics of an elastic run", "elastic", "elastic/metrics.jsonl", REPLAY, is_text=True),
    Original("profile of a device", "devices", "profiles/devices/cpu.json", SOLVE, is_text=True, may_be_renamed=True,
             also_named=("profiles",)),
    Original("profile of buckets", "devices", "profiles/buckets.json", SOLVE, is_text=True),
    Original("profile of communication", "devices", "profiles/communication.json", SOLVE, is_text=True),
    Original("hosts of a cluster", "devices", "cluster.json", SOLVE, is_text=True),
    Original("config of the solver", "devices", "solve.yaml", SOLVE, is_text=True),
    Original("trace of a cluster", "devices", "trace.jsonl", SIMULATE, is_text=True),
    Original("JABAS's computation", "devices", "jabas/comp/8/node0/vit_8_1_comp_profile.json", JABAS, is_text=True,
             may_be_renamed=True, also_named=("jabas/comp",)),
    Original("JABAS's memory", "devices", "jabas/mem/8/node0/max_memory_profile_info.json", JABAS, is_text=True,
             may_be_renamed=True, also_named=("jabas/mem",)),
    Original("JABAS's communication", "devices", "jabas/comm/inter_comm_profile_data.txt", JABAS, is_text=True,
             may_be_renamed=True, also_named=("jabas/comm",)),
    Original("JABAS's buckets", "devices", "jabas/bucket/vit.json", JABAS, is_text=True, may_be_renamed=True,
             also_named=("jabas/bucket",)),
    resumed("config.yaml", is_text=True),
    resumed("metrics.jsonl", is_text=True),
    resumed("train.log", is_text=True),
    resumed("evaluation.json", is_text=True),
    resumed("machine.json", is_text=True),
    resumed("report.html", is_text=True),
    resumed("events.out.tfevents.1"),
    resumed("stopped", is_text=True),
    resumed(".lock"),
    resumed("checkpoints/latest", is_text=True, is_checked=True),
    resumed("checkpoints/best", is_text=True),
    resumed(f"{CHECKPOINT}/manifest.json", is_text=True, is_checked=True,
            layers=(layers.whole, layers.manifest, layers.manifest)),
    resumed(f"{CHECKPOINT}/model-00000.safetensors", is_checked=True, **SAFETENSORS),
    resumed(f"{CHECKPOINT}/optimizer-00000.safetensors", is_checked=True, **SAFETENSORS),
    resumed(f"{CHECKPOINT}/ema-00000.safetensors", is_checked=True, **SAFETENSORS),
]
