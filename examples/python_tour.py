# Fovea from Python, in cells that an editor or Jupyter runs one by one: a training that is watched, stopped and gone on with, its curves,
# what it answers, and timm's training loop on one of Fovea's models. Needs the wheel fovea, and Debian's dataset-fashion-mnist.
# %%
import pathlib
import tempfile

import fovea
import torch

RECIPE = pathlib.Path(fovea.__file__).parent / "share/fovea/recipes/fashion_mnist/quickstart.yaml"
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="fovea-"))

# %% [markdown]
# A run is what the recipe says, with the keys that are given here. The callback sees each step and may end the run, whose state is saved.

# %%
def watch(progress):
    if progress.step % 5 == 0:
        print(f"step {progress.step}: loss {progress.metrics['loss']:.3f}")
    if progress.step == 15:
        progress.stop()


options = {"run": {"dir": FOLDER / "run"}, "trainer": {"max_steps": 30}, "data": {"global_batch_size": 64}, "schedule": {"warmup_steps": 5},
           "log": {"every_steps": 1}}
result = fovea.train(RECIPE, on_step=watch, progress=False, **options)
print(result)

# %% [markdown]
# The same call goes on from there.

# %%
result = fovea.train(RECIPE, progress=False, on_evaluation=print, **options)
print(result)

# %% [markdown]
# Its curves: as arrays, as a table, and as the figures of the report.

# %%
run = fovea.load_run(result.run_dir)
steps, losses = run.curve("loss")
print(f"loss {losses[0]:.3f} at step {steps[0]:.0f}, {losses[-1]:.3f} at step {steps[-1]:.0f}")
for number, (title, svg) in enumerate(run.figures().items()):
    (FOLDER / f"figure_{number}.svg").write_text(svg)
    print(f"{title}: {FOLDER}/figure_{number}.svg")
print("report:", run.report())

# %% [markdown]
# What it says of an image: here of pixels; paths and bytes of files do as well.

# %%
predictor = fovea.Predictor(result.run_dir)
pixels = torch.randint(256, (28, 28), dtype=torch.uint8)
print(predictor([pixels])[0].top(3))

# %% [markdown]
# Its model in a loop of one's own: timm's names, torch's optimizer, Fovea's kernels.

# %%
model = fovea.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=4, num_classes=10, drop_path_rate=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images, labels = torch.randn(64, 3, 32, 32), torch.arange(64) % 10
for step in range(10):
    with torch.autocast("cpu", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(images).float(), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}")
