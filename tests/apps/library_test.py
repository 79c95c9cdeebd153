#!/usr/bin/env python3
"""Fovea as a library: installed, moved to another place, and used from there by the project in examples/. What its programs
compute is bitwise what the installed `fovea` does; a libtorch that does not fit is one clear error.

usage: library_test.py BUILD TORCH CXX: a finished build folder, the libtorch and the compiler that made it.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import tiny_run  # noqa: E402

BAG = "{name: bag_of_patches, img_size: 8, patch_size: 2, in_chans: 1, num_classes: 4, embed_dim: 32}"


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"library_test: {' '.join(map(str, what))}")


def run(*words, code=0, env=None):
    """Standard output, or of a failure that is expected, standard error."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    check(done.returncode == code if code == 0 else done.returncode != 0, *words, "ended with", done.returncode,
          done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def words(text):
    return re.sub(r"\s+", " ", text)  # CMake breaks lines where it likes


def install(build, folder, torch):
    """The tree, moved once it is complete."""
    for component in ("program", "library"):
        run("cmake", "--install", build, "--prefix", folder / "first", "--component", component)
    (folder / "first/lib/fovea").mkdir()
    (folder / "first/lib/fovea/torch").symlink_to(torch)  # what component libtorch would copy, a gigabyte
    return (folder / "first").rename(folder / "moved")


def fake_torch(folder, version):
    header = folder / version / "include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    names = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    header.write_text("".join(f"#define TORCH_VERSION_{name} {number}\n" for name, number in names))
    return folder / version


def check_package_errors(tree, folder):
    """Of an install that is used with another libtorch, or none."""
    project = folder / "finds"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(finds NONE)\n"
                                            "find_package(Fovea REQUIRED)\n")
    built_with = re.search(r"FOVEA_TORCH_VERSION (\S+)\)", (tree / "lib/cmake/Fovea/FoveaConfig.cmake").read_text())[1]
    for torch, found in ((fake_torch(folder, "2.99.1"), "is version 2.99.1"), (folder / "none", "there is none")):
        text = words(run("cmake", "-S", project, "-B", project / found[-4:], f"-DCMAKE_PREFIX_PATH={tree}",
                         f"-DFOVEA_TORCH_DIR={torch}", code=1))
        for part in (found, f"built with libtorch {built_with}", f"Set FOVEA_TORCH_DIR to a libtorch {built_with}", str(torch)):
            check(part in text, f"expected '{part}' in", text)


def check_range(folder):
    """What CMake says of a libtorch when Fovea itself is built."""
    script = folder / "range.cmake"
    script.write_text(f"include({ROOT}/cmake/FoveaTorch.cmake)\nfovea_check_torch_range(${{FOLDER}})\n")

    def say(version, code=0):
        done = subprocess.run(["cmake", f"-DFOLDER={fake_torch(folder / 'range', version)}", "-P", str(script)],
                              capture_output=True, text=True, check=False)
        check((done.returncode != 0) == bool(code), version, done.stdout, done.stderr)
        return words(done.stdout + done.stderr)
    check("libtorch 2.11.0 in" in say("2.11.0"), "2.11.0 is not named")
    check("is version 2.9.1, older than" in say("2.9.1", code=1), "2.9.1 is not refused")
    check("Warning" in (text := say("2.99.0")) and "newer than Fovea was tried with" in text, text)


def build_examples(tree, folder, cxx):
    build = folder / "examples"
    run("cmake", "-S", ROOT / "examples", "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={tree}",
        f"-DCMAKE_CXX_COMPILER={cxx}")
    run("cmake", "--build", build)
    return build


def losses_of(run_folder):
    lines = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line["split"] == "train"]


def by_hand(program, recipe, num_ranks, mesh):
    """The losses that its first process prints, of processes as torchrun starts them."""
    port = tiny_run.free_port()
    ranks = []
    for rank in range(num_ranks):
        env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks, "LOCAL_WORLD_SIZE": num_ranks,
               "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks.append(subprocess.Popen([program, recipe, *mesh], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env={**os.environ, **{key: str(value) for key, value in env.items()}}))
    texts = [process.communicate(timeout=120) for process in ranks]
    check(all(process.returncode == 0 for process in ranks), *texts)
    check(not any(output for output, _ in texts[1:]), "other ranks print", *texts)
    lines = [line.split() for line in texts[0][0].splitlines()]
    check([int(step) for step, _ in lines] == list(range(1, len(lines) + 1)), lines)
    return [float(loss) for _, loss in lines]


def write_png(path):
    """8 x 8 grey pixels of class 2 of tiny_run's."""
    path.write_bytes(tiny_run.png(bytes(80 + (7 * x + 13 * y) % 60 for y in range(8) for x in range(8)), 8))


def check_training(fovea, examples, folder):
    for num_ranks, mesh in ((1, []), (2, ["parallel.dp_shard=2"])):
        data = folder / f"ranks_{num_ranks}"
        tiny_run.write(data, num_ranks, micro_batch_size=8, epochs=2)
        run(fovea, "train", data / "recipe.yaml", *mesh)
        expected = losses_of(data / "run")
        found = by_hand(examples / "train_by_hand", data / "recipe.yaml", num_ranks, mesh)
        check(len(expected) == 2 * tiny_run.STEPS_PER_EPOCH and found == expected, "by hand", found, "expected", expected)
        check(tiny_run.tensors(data / "run/weights.safetensors") == tiny_run.tensors(data / "run.safetensors"),
              num_ranks, "processes by hand: other weights")
    return folder / "ranks_1"


def check_own_model(fovea, examples, data, image):
    own = data / "own"
    run(examples / "own_model", data / "recipe.yaml", f"model={BAG}", f"run.dir={own}", "trainer.max_epochs=8")
    losses = losses_of(own)
    check(losses[-1] < 0.8 * losses[0], "the own model does not learn:", losses)
    text = run(fovea, "predict", own, image, code=1)
    check("bag_of_patches" in text and "expected one of vit" in text, text)


def check_predictions(fovea, examples, data, image):
    found = run(examples / "predict", data / "run", image).split("\t")
    best = json.loads(run(fovea, "predict", data / "run", image, "--json"))["classes"][0]
    check(found[1] == best["class"] and float(found[2]) == best["score"], found, "expected", best)


def main():
    build, torch, cxx = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tree = install(build, folder, torch)
        fovea = tree / "bin/fovea"
        run(fovea, "--version")  # finds libtorch from where it is now
        check(torch.encode() not in fovea.read_bytes(), "the program holds the place of libtorch at the build:", torch)
        check_range(folder)
        check_package_errors(tree, folder)
        examples = build_examples(tree, folder, cxx)
        image = folder / "image.png"
        write_png(image)
        data = check_training(fovea, examples, folder)
        check_predictions(fovea, examples, data, image)
        check_own_model(fovea, examples, data, image)


if __name__ == "__main__":
    main()
