"""Goldens for fovea/train/diffusion: the schedulers of Hugging Face diffusers, in float64, and scipy's matrix root.

  diffusion_schedulers.safetensors: for both beta schedules alphas_cumprod and noisy images; for each prediction type
      steps of DDPMScheduler and DDIMScheduler with given model output and noise, clipped and not; time steps of both
      spacings.
  diffusion_frechet.safetensors: two sets of features, their distance by scipy.linalg.sqrtm.

    python tools/golden/make_diffusion.py

Needs diffusers 0.35.2, torch 2.11.0, numpy, scipy 1.17.1, safetensors.
"""
import json
import pathlib
from unittest import mock

import diffusers
import numpy as np
import scipy
import torch
from diffusers import DDIMScheduler, DDPMScheduler
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SHAPE = (2, 1, 3, 3)
PREDICTIONS = {"epsilon": "epsilon", "x0": "sample", "v": "v_prediction"}
SCHEDULES = {"linear": "linear", "cosine": "squaredcos_cap_v2"}


def scheduler(kind, **settings):
    """The schedulers make float32 tables: float64 ones here, by the name of the dtype."""
    with mock.patch.object(torch, "float32", torch.float64):
        return kind(num_train_timesteps=1000, beta_start=1e-4, beta_end=0.02, **settings)


def draw(generator, scale=1.0):
    return scale * torch.randn(SHAPE, generator=generator, dtype=torch.float64)


def step_cases(generator, tensors, cases):
    for prediction, theirs in PREDICTIONS.items():
        for clip in (False, True):
            settings = dict(prediction_type=theirs, clip_sample=clip, clip_sample_range=0.75)
            cases.append(dict(kind="ddim", prediction=prediction, clip=clip, eta=0.0, steps=10, spacing="leading"))
            cases.append(dict(kind="ddim", prediction=prediction, clip=clip, eta=0.7, steps=7, spacing="leading"))
            cases.append(dict(kind="ddim", prediction=prediction, clip=clip, eta=1.0, steps=20, spacing="trailing"))
            cases.append(dict(kind="ddpm", prediction=prediction, clip=clip, variance="small", steps=1000,
                              spacing="leading"))
            cases.append(dict(kind="ddpm", prediction=prediction, clip=clip, variance="large", steps=9,
                              spacing="leading"))
            cases.append(dict(kind="ddpm", prediction=prediction, clip=clip, variance="small", steps=8,
                              spacing="trailing"))
            for case in cases[-6:]:
                one_case(case, settings, generator, tensors, cases.index(case))


def one_case(case, settings, generator, tensors, number):
    kind = DDIMScheduler if case["kind"] == "ddim" else DDPMScheduler
    extra = {} if case["kind"] == "ddim" else {"variance_type": "fixed_" + case["variance"]}
    one = scheduler(kind, beta_schedule="linear", timestep_spacing=case["spacing"], **settings, **extra)
    one.set_timesteps(case["steps"])
    places = [0, len(one.timesteps) // 2, len(one.timesteps) - 1]
    case["timesteps"] = [int(one.timesteps[i]) for i in places]
    case["previous"] = [int(one.timesteps[i + 1]) if i + 1 < len(one.timesteps) else -1 for i in places]
    for i, place in enumerate(places):
        sample, output, noise = draw(generator), draw(generator, 0.8), draw(generator)
        if case["previous"][i] < 0:  # theirs adds 1e-10 of it where the last time step is not 0
            noise = torch.zeros(SHAPE, dtype=torch.float64)
        t = int(one.timesteps[place])
        if kind is DDIMScheduler:
            result = one.step(output, t, sample, eta=case["eta"], variance_noise=noise if case["eta"] > 0 else None)
        else:
            with mock.patch("diffusers.schedulers.scheduling_ddpm.randn_tensor", return_value=noise):
                result = one.step(output, t, sample)
        values = dict(sample=sample, output=output, noise=noise, previous=result.prev_sample,
                      image=result.pred_original_sample)
        for name, value in values.items():
            tensors[f"{number}/{i}/{name}"] = value


def make_schedulers():
    generator = torch.Generator().manual_seed(11)
    tensors, cases, spacings = {}, [], []
    for name, theirs in SCHEDULES.items():
        one = scheduler(DDPMScheduler, beta_schedule=theirs)
        assert one.alphas_cumprod.dtype == torch.float64
        tensors[name + "/alpha_bar"] = one.alphas_cumprod
        images, noise, t = draw(generator), draw(generator), torch.tensor([3, 987])
        tensors.update({
            name + "/images": images, name + "/noise": noise, name + "/timesteps": t,
            name + "/noisy": one.add_noise(images, noise, t), name + "/velocity": one.get_velocity(images, noise, t)})
    step_cases(generator, tensors, cases)
    for spacing in ("leading", "trailing"):
        for steps in (1, 3, 7, 50, 300, 999, 1000):
            one = scheduler(DDIMScheduler, timestep_spacing=spacing)
            one.set_timesteps(steps)
            spacings.append(dict(spacing=spacing, steps=steps))
            tensors[f"timesteps/{spacing}/{steps}"] = one.timesteps.to(torch.int64)
    config = dict(cases=cases, spacings=spacings)
    made_by = f"tools/golden/make_diffusion.py, diffusers {diffusers.__version__}, torch {torch.__version__}"
    path = OUT / "diffusion_schedulers.safetensors"
    save_file({k: v.clone().contiguous() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps(config), "made_by": made_by})
    print(f"{path.name}: {len(cases)} cases of 3 steps, {path.stat().st_size} bytes")
    assert path.stat().st_size < 300_000


def make_frechet():
    generator = np.random.default_rng(5)
    left = generator.normal(size=(40, 6)) @ generator.normal(size=(6, 6)) + 3.0
    right = generator.normal(size=(25, 6)) @ generator.normal(size=(6, 6))
    c1, c2 = np.cov(left, rowvar=False), np.cov(right, rowvar=False)
    root = scipy.linalg.sqrtm(c1 @ c2).real
    distance = np.sum((left.mean(0) - right.mean(0)) ** 2) + np.trace(c1 + c2 - 2 * root)
    tensors = {"left": left, "right": right, "mean": left.mean(0), "covariance": c1,
               "root": scipy.linalg.sqrtm(c1).real, "distance": np.array(distance)}
    path = OUT / "diffusion_frechet.safetensors"
    save_file({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in tensors.items()}, path,
              metadata={"config": "{}", "made_by": f"tools/golden/make_diffusion.py, scipy {scipy.__version__}"})
    print(f"{path.name}: distance {distance:.6f}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_schedulers()
    make_frechet()
