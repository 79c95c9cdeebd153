"""A machine that has no room (full disks, output that nobody reads, little memory, few files), and hostile words of a command."""
from . import texts
from .images import CHECK, INSPECT, PACK
from .originals import Original
from .runs import RUN, TRAIN_SHORT

# What a shell does before it starts the program; "$@" is the program and its words.
SURROUNDINGS = {
    "a full disk for its output": 'exec "$@" > /dev/full',
    "a full disk for all it says": 'exec "$@" > /dev/full 2> /dev/full',
    "output that nobody reads": 'set -o pipefail; "$@" | exec true',
    "no standard output": 'exec "$@" >&-',
    "no standard error": 'exec "$@" 2>&-',
    "no standard input, output and error": 'exec "$@" <&- >&- 2>&-',
    "a folder that is gone": 'here=$PWD; mkdir gone; cd gone; rmdir "$here/gone"; exec "$@"',
    "460 MB of addresses": 'ulimit -v 460000; exec "$@"',
    "500 MB of addresses": 'ulimit -v 500000; exec "$@"',
    "550 MB of addresses": 'ulimit -v 550000; exec "$@"',
    "700 MB of addresses": 'ulimit -v 700000; exec "$@"',
    "five open files": 'ulimit -n 5; exec "$@"',
    "twelve open files": 'ulimit -n 12; exec "$@"',
    "files of 0 KB": 'ulimit -f 0; exec "$@"',
    "files of 16 KB": 'ulimit -f 16; exec "$@"',
    "files of 400 KB": 'ulimit -f 400; exec "$@"',
    "a small stack": 'ulimit -s 512; exec "$@"',
    "another language": 'LC_ALL=xx_YY.UTF-7 LANG=tr_TR TZ=:/dev/zero exec "$@"',
    "no variables": 'exec env -i "$@"',
}
OUTPUT_IS_LOST = {"a full disk for its output", "a full disk for all it says"}
ANYWHERE = ["list models", "list recipes", "config schema", "config reference", "doctor", "list datasets --json", "--help"]
HOSTILE_WORDS = "hostile words"
KEYS = ["run.dir", "run.seed", "model.embed_dim", "model.depth", "model.img_size", "model.patch_size", "model.name",
        "model.preset", "model.num_classes", "model", "device.threads", "device.dtype", "device.type", "optim.lr",
        "optim.name", "optim.betas", "data.train.images", "data.train.class_names", "data.train.transforms",
        "data.train.num_classes", "data.mixup.mixup_alpha", "data.global_batch_size", "data.batch_schedule", "data.threads",
        "data.prefetch", "trainer.micro_batch_size", "trainer.ema.decay", "schedule.min_lr", "init.weights", "log.wandb", "log.every_steps",
        "checkpoint.keep", "launch.timeout", "phases", "nonsense.key", "\x1b[31mred", "task.label_smoothing", "task.name"]
VALUES = [value for value in texts.NUMBERS + texts.VALUES + texts.NAMES + texts.ESCAPED if b"\0" not in value]


def within(name, group, commands):
    return Original(f"surroundings of {name}", group, "", commands, surroundings=list(SURROUNDINGS))


def with_words(command):
    return Original(f"words of {command.split()[0]}", "run", "", [command], surroundings=[HOSTILE_WORDS])


GROUPS = {}
ORIGINALS = [
    within("a run", "run", RUN), within("anything", "run", ANYWHERE),
    within("a training", "run", [TRAIN_SHORT, TRAIN_SHORT, "bench data full.yaml --rounds 1 --seconds 0.1 --json"]),
    within("data", "photos", [PACK.format("photos"), CHECK.format("photos"), INSPECT.format("photos"),
                              "predict look.yaml photos/cat/jpeg_420.jpg --json --threads 1"]),
    with_words("config show short.yaml"), with_words("summary short.yaml"), with_words(TRAIN_SHORT),
    with_words("eval short.yaml --weights weights.safetensors"), with_words("data check short.yaml"),
    with_words("plan short.yaml --gpus 4"),
]
