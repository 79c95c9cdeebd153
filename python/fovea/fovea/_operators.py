"""torch.ops.fovea.model and model_backward: a pass of a whole model, for what traces a program (torch.compile, torch.export, FSDP).

A pass is a function of its arguments alone: what the model is made of, as text, its parameters and its input. Between forward and
backward the activations hang on the `tape`, a tensor of one byte; they go when it does.
"""
import functools
import json
from collections.abc import Sequence

from fovea._library import core  # before torch: it says which torch is wanted

import torch
from torch import Tensor

from fovea.data._errors import Error


def text_of(name, overrides, recomputes_blocks):
    """What a model is made of, as the operator's argument `model`."""
    return json.dumps([name, overrides, recomputes_blocks])


@functools.lru_cache
def _structure(model):
    return core.ModelStructure(*json.loads(model))


@functools.lru_cache
def _output_shape(model, function, sides):
    return _structure(model).output_shape(function, sides)


# A graph of CUDA would not see the seed change, nor make a tape.
@torch.library.custom_op("fovea::model", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def run(model: str, function: str, x: Tensor, parameters: Sequence[Tensor], seed: Tensor | None, wanted: Sequence[int]) -> tuple[Tensor, Tensor]:
    """function: "forward", "features", "head" or "pre_logits". x: images [B, C, H, W], for the last two tokens [B, N, D]. seed: a number
    of int64 on the CPU, what drops are drawn from in training; None: evaluation. wanted: of which of (x, *parameters) gradients
    will be asked, ascending; [] where none will. -> (output [B, ...] in the dtype of x, tape)"""
    if torch.autograd.forward_ad._current_level >= 0:  # tangents do not reach this place
        raise Error("fovea::model within forward-mode differentiation (torch.func.jvp, forward_ad.dual_level): its kernels have gradients of "
                    "backward mode alone; expected torch.autograd.grad")
    return _structure(model).run(function, x, parameters, None if seed is None else int(seed), wanted)


@run.register_fake
def _(model, function, x, parameters, seed, wanted):
    shape = _output_shape(model, function, tuple(int(side) for side in x.shape[1:]))
    return x.new_empty([x.shape[0], *shape]), torch.empty(1, dtype=torch.uint8, device="cpu")


@torch.library.custom_op("fovea::model_backward", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def run_backward(d_output: Tensor, tape: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    """inputs: those of (x, *parameters) that were wanted -> their gradients, zeros where the output does not depend on one."""
    return core.gradients_of(d_output, tape)


@run_backward.register_fake
def _(d_output, tape, inputs):
    return [x.new_empty(x.shape) for x in inputs]


def _set_up(ctx, inputs, output):
    _, _, x, parameters, _, wanted = inputs
    ctx.wanted, ctx.num_parameters = wanted, len(parameters)
    given = (x, *parameters)
    ctx.save_for_backward(output[1], *(given[i] for i in wanted))


def _backward(ctx, d_output, _):
    if not ctx.wanted:
        raise Error("fovea::model: a gradient is asked for, but `wanted` is []; expected the places of what gets gradients among "
                    "(x, *parameters)")
    tape, *inputs = ctx.saved_tensors
    found = dict(zip(ctx.wanted, run_backward(d_output, tape, inputs)))
    return None, None, found.get(0), [found.get(1 + i) for i in range(ctx.num_parameters)], None, None


run.register_autograd(_backward, setup_context=_set_up)


def refuse_second_derivatives(*_):
    raise Error("second derivatives of a Fovea model: its kernels have first ones alone; expected create_graph=False. Take those of what "
                "stands around the model, or compute with timm's model, whose state_dict is the same")


run_backward.register_autograd(refuse_second_derivatives)
