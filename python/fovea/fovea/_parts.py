"""What stands in a Model where timm has modules: places for parameters, under their names."""
import torch

from fovea.data._errors import Error


class Part(torch.nn.Module):
    """What is done with its parameters is the model's."""

    def forward(self, *_, **__):
        raise Error("a part of a Fovea model is not computed by itself: call the model, its forward_features, forward_head or "
                    "forward_intermediates")

    def _refuse_hook(self, *_, **__):
        raise Error("a part of a Fovea model is not called by itself, so a hook of it would never run. The model takes hooks, and each "
                    "parameter does (register_hook); forward_intermediates gives the tokens after any block")

    register_forward_hook = register_forward_pre_hook = _refuse_hook
    register_full_backward_hook = register_full_backward_pre_hook = register_backward_hook = _refuse_hook


class PartList(Part):
    """Numbered ones: model.blocks[0], model.blocks[-2:]."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        parts = list(self)
        return torch.nn.ModuleList(parts[index]) if isinstance(index, slice) else parts[index]


def part_for(names):
    """names: what comes below it in a parameter's name."""
    return PartList() if names and names[0].isdigit() else Part()


def extras_of(root, names, left_out):
    """By part what a user has put there: hooks, modes, attributes, modules and parameters of his own. names: of the library's parameters;
    left_out: of the library's attributes."""
    extras = {}
    for path, part in root.named_modules():
        if part is not root and not isinstance(part, Part):
            continue
        prefix = f"{path}." if path else ""
        extras[path] = {name: value for name, value in vars(part).items() if name not in (*left_out, "_modules", "_parameters")}
        extras[path]["_modules"] = {name: module for name, module in part._modules.items() if not isinstance(module, Part)}
        extras[path]["_parameters"] = {name: value for name, value in part._parameters.items() if prefix + name not in names}
    return extras


def give_extras(root, extras):
    for path, given in extras.items():
        part = root.get_submodule(path)
        for name, value in given.items():
            if name in ("_modules", "_parameters"):
                getattr(part, name).update(value)
            else:
                vars(part)[name] = value
