"""optimizer_check.py FILE.pt DCP NEXT.safetensors KIND: what `fovea convert --optimizer` wrote, in the hands of torch.

A plain module with the file's parameters gets the optimizer KIND, whose groups are as large as the file's. It loads the
file with load_state_dict; another one loads the folder with torch.distributed.checkpoint and set_optimizer_state_dict.
Both must come to the same state, take one step with the gradients 0.01 * (weight + 1), and give the same weights, which
NEXT gets. Muon is torch's two optimizers, which the folder alone is for."""
import sys

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

torch_file, folder, next_file, kind = sys.argv[1:]


def module_of(weights):
    model = torch.nn.Module()
    for name, tensor in weights.items():
        *path, last = name.split(".")
        place = model
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, torch.nn.Module())
            place = getattr(place, part)
        place.register_parameter(last, torch.nn.Parameter(tensor.clone()))
    return model


def optimizers_of(model, groups):
    """As a program would make them: by its own defaults, which loading replaces."""
    named = dict(model.named_parameters())
    sets = [{"params": [named[n] for n in g.get("param_names", g["params"])]} for g in groups]
    if kind == "muon":
        of_muon = ["ns_steps" in g for g in groups]
        return [torch.optim.Muon([s for s, m in zip(sets, of_muon) if m], lr=1), torch.optim.AdamW([s for s, m in zip(sets, of_muon) if not m])]
    if kind == "lamb":
        from timm.optim import Lamb
        return [Lamb(sets, lr=1)]
    return [{"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "adafactor": torch.optim.Adafactor}[kind](sets, lr=1)]


def step(model, optimizers):
    for parameter in model.parameters():
        parameter.grad = 0.01 * (parameter.detach() + 1)
    for optimizer in optimizers:
        optimizer.step()
    return {name: p.detach().clone() for name, p in model.named_parameters()}


saved = torch.load(torch_file, weights_only=True)
groups = saved["optimizer"]["param_groups"]
results = []
if kind != "muon":
    model = module_of(saved["model"])
    optimizers = optimizers_of(model, groups)
    optimizers[0].load_state_dict(saved["optimizer"])
    results.append(step(model, optimizers))

model = module_of({name: torch.zeros_like(t) for name, t in saved["model"].items()})
optimizers = optimizers_of(model, groups)
state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizers)}
dcp.load(state, checkpoint_id=folder)
model.load_state_dict(state["model"])
set_optimizer_state_dict(model, optimizers, optim_state_dict=state["optimizer"])
results.append(step(model, optimizers))
for name, tensor in results[0].items():
    assert torch.equal(tensor, results[-1][name]), name
save_file(results[0], next_file)

dcp_to_torch_save(folder, torch_file + ".again")
again = torch.load(torch_file + ".again", weights_only=True)
assert set(again) == set(saved), (list(again), list(saved))
states = again["optimizer"].get("state", {})  # a folder keeps no empty dict
assert list(states) == [n for g in groups for n in g.get("param_names", g["params"]) if n in states]
print(f"{kind}: {len(states)} states, lr {groups[0]['lr']}, step {again['step']}")
