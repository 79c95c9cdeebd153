"""What is damaged: a valid file among the files that it needs, and the commands that read it."""
import dataclasses
import pathlib
import subprocess
import typing

from . import layers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
GOLDEN = ROOT / "tests/golden"
SAMPLES = ROOT / "tests/recipe_import/samples"

RECIPE = """\
run: {{dir: new_run, seed: 1}}
device: {{type: cpu, threads: 1}}
model: {{name: vit, img_size: {size}, patch_size: {patch}, in_chans: {channels}, num_classes: {classes}, embed_dim: 16, depth: 1,
         num_heads: 2}}
data:
  train: {{{source}, transforms: [{transforms}]}}
  val: {{{source}, transforms: [{transforms}]}}
  global_batch_size: 2
  threads: 1
trainer: {{max_steps: 2, micro_batch_size: 2}}
log: {{tensorboard: false}}
"""
IMAGES = "{name: resize, size: 8}, {name: center_crop, size: 8}, normalize"


@dataclasses.dataclass
class Original:
    name: str
    group: str  # the files that it lies among: a function of GROUPS makes them
    victim: str  # the file that is damaged; empty: all are whole
    commands: typing.Sequence[str]
    is_checked: bool = False  # it has checksums: damage that is accepted must not change what comes out
    layers: typing.Sequence[typing.Callable] = (layers.whole,)
    is_text: bool = False
    also_named: typing.Sequence[str] = ()  # what a message may name instead
    may_move: bool = True  # False: the program itself writes it
    lies_in_a_folder: bool = True  # False: it is sent, and nothing else than a file can be in its place
    may_be_renamed: bool = False  # it is found by looking into its folder
    surroundings: typing.Sequence[str] = ()  # where there is no victim

    @property
    def names(self):
        """What a message about the file says."""
        return [self.victim.rpartition("/")[2], *self.also_named] if self.victim else []


def recipe(source, size=8, patch=4, channels=3, classes=4, transforms=IMAGES):
    return RECIPE.format(source=source, size=size, patch=patch, channels=channels, classes=classes, transforms=transforms)


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(data, str):
        path.write_text(data)
    else:
        path.write_bytes(data)


def corpus(name):
    return (CORPUS / name).read_bytes()


def fovea(program, folder, *words):
    """Runs the program on files that are whole. -> what it prints"""
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        raise SystemExit(f"hostile: fovea {' '.join(words)} in {folder} ended with {done.returncode} on files that are whole\n"
                         + (done.stdout + done.stderr).decode(errors="replace"))
    return done.stdout
