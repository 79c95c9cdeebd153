"""What users of timm reach for: it is timm's, or refused by name."""
import copy
import pickle

import fovea
import torch
from python_checks import SMALL, check, expect, is_close
from torch.nn.utils.parametrizations import weight_norm
from torch.utils._pytree import tree_leaves


def pair(timm, name="vit_tiny_patch16_224", **options):
    """timm's and ours, with the same values."""
    theirs = timm.create_model(name, **{**SMALL, **options}).eval()
    ours = fovea.create_model(name, **{**SMALL, **options}).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def check_intermediates(timm):
    x = torch.randn(2, 3, 32, 32)
    for options in ({}, {"global_pool": "avg", "reg_tokens": 2}):
        theirs, ours = pair(timm, **options)
        check(ours.num_prefix_tokens == theirs.num_prefix_tokens and ours.embed_dim == theirs.embed_dim, "other tokens", options)
        calls = [lambda model, given=given: model.forward_intermediates(x, **given) for given in (
            {}, {"indices": 1}, {"indices": [0, -1], "norm": True}, {"output_fmt": "NLC", "return_prefix_tokens": True},
            {"return_prefix_tokens": True, "intermediates_only": True})]
        calls += [lambda model: model.get_intermediate_layers(x, 2, reshape=True, norm=True)]
        for number, call in enumerate(calls):
            found, expected = tree_leaves(call(ours)), tree_leaves(call(theirs))
            check([a.shape for a in found] == [a.shape for a in expected], number, "other shapes")
            check(all(map(is_close, found, expected)), number, "other tokens after a block")
    expect(ValueError, ["NHWC"], lambda: ours.forward_intermediates(x, output_fmt="NHWC"))
    expect(fovea.ConfigError, ["ViT"], lambda: fovea.create_model("t2t_vit_7").embed_dim)


def check_frozen(timm):
    """A backbone that gets no gradients; and the rest gets timm's."""
    results = []
    for model in pair(timm):
        model.requires_grad_(False)
        for part in (model.get_classifier(), *model.blocks[-1:]):
            part.requires_grad_()
        model(torch.ones(2, 3, 32, 32)).square().sum().backward()
        results.append({name: p.grad for name, p in model.named_parameters()})
    for name, expected in results[0].items():
        check((results[1][name] is None) == (expected is None), name, "gets a gradient in one of them alone")
        check(expected is None or is_close(results[1][name], expected), name, "another gradient")
    check(sum(value is not None for value in results[1].values()) == 14, "found", results[1].keys())


def check_layer_decay(timm):
    from timm.optim import create_optimizer_v2

    def groups(model):
        names = {id(p): name for name, p in model.named_parameters()}
        optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05, layer_decay=0.7)
        return {names[id(p)]: (g["lr_scale"], g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    theirs, ours = pair(timm, reg_tokens=1)
    check(groups(ours) == groups(theirs), "other layers", groups(ours), groups(theirs))


def outcome(model, call):
    model.zero_grad()
    torch.manual_seed(3)
    x = torch.randn(2, 3, 32, 32).requires_grad_()
    output = call(x)
    output.square().sum().backward()
    return [output.detach(), x.grad, *(p.grad for p in model.parameters())]


def check_recomputed():
    """Blocks, or passes, that run again in backward give the same bits, drops and all."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL, drop_path_rate=0.5, proj_drop_rate=0.3)
    expected = outcome(model, model)
    again = torch.utils.checkpoint.checkpoint
    calls = {"checkpoint": lambda x: again(model, x, use_reentrant=False), "reentrant": lambda x: again(model, x, use_reentrant=True),
             "blocks": model, "blocks, traced": torch.compile(model, backend="aot_eager", fullgraph=True), "kept": model}
    for name, call in calls.items():
        model.set_grad_checkpointing(name.startswith("blocks"))
        check(all(map(torch.equal, outcome(model, call), expected)), name, "another outcome")
    kept = []
    for enable in (False, True):
        model.set_grad_checkpointing(enable)
        sizes = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
            model(torch.randn(2, 3, 32, 32))
        kept.append(sum(sizes))
    check(kept[1] < kept[0] / 2, "checkpointing keeps", kept[1], "of", kept[0], "values")


def check_copies():
    """Hooks, modes and what a user has added are copied, too."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    model.adapter, model.scale = torch.nn.Linear(7, 7), torch.nn.Parameter(torch.ones(2))
    model.blocks[0].eval().note = "first"
    model.set_grad_checkpointing()
    handle = model.register_forward_hook(_twice)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2, 3, 32, 32)
    twin, its_optimizer = copy.deepcopy((model, optimizer))
    for other in (twin, pickle.loads(pickle.dumps(model))):
        check(other(x).equal(model(x)), "a hook is not copied")
        check(other.adapter is not model.adapter and other.adapter.weight.equal(model.adapter.weight), "a module is not copied")
        check(other.scale is not model.scale and other.scale.equal(model.scale), "a parameter is not copied")
        check(other.blocks[0].note == "first" and not other.blocks[0].training and other.blocks[1].training, "other modes")
        check(other.grad_checkpointing and other.adapter in other.children(), "other settings")
    check({id(p) for p in twin.parameters()} == {id(p) for g in its_optimizer.param_groups for p in g["params"]},
          "an optimizer that is copied along has other parameters")
    handle.remove()
    check(twin(x).equal(2 * model(x)), "a copy's hook is the model's")
    weight_norm(model.head)
    expect(fovea.Error, ["head", "remove_parametrizations"], lambda: copy.deepcopy(model))


def _twice(_module, _inputs, output):
    return 2 * output


def check_inputs():
    """In any layout, of no image, of shapes alone; one without a batch is refused."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    x = torch.randn(4, 3, 64, 64)
    for name, view in (("strided", x[::2, :, ::2, 1::2]), ("transposed", x[:, :, :32, 32:].transpose(2, 3)),
                       ("expanded", x[:1, :, :32, :32].expand(3, 3, 32, 32)),
                       ("channels last", x[..., :32, :32].contiguous(memory_format=torch.channels_last))):
        check(model(view).equal(model(view.contiguous(memory_format=torch.contiguous_format))), name, "images give something else")
    empty = torch.empty(0, 3, 32, 32, requires_grad=True)
    model(empty).sum().backward()
    check(empty.grad.shape == empty.shape and not model.head.weight.grad.any(), "a batch of nothing")
    check(copy.deepcopy(model).to("meta")(empty.new_empty(5, 3, 32, 32, device="meta")).shape == (5, 7), "a pass on the meta device")
    with torch.inference_mode():
        check(model(x[..., :32, :32]).is_inference(), "inference_mode")
    expect(fovea.Error, ["[3, 32, 32]", "x[None]"], lambda: model(x[0, :, :32, :32]))


def check_derivatives():
    """First ones, one at a time; what asks for more is told so, not given something else."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    x = torch.randn(2, 3, 32, 32, requires_grad=True)
    values = {name: p.detach().requires_grad_() for name, p in model.named_parameters()}
    traced = torch.compile(model, backend="eager", fullgraph=True)
    for call in (model, traced, lambda x: torch.func.functional_call(model, values, x), model.forward_features):
        def second():
            first, = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
            torch.autograd.grad(first.sum(), x)
        expect(fovea.Error, ["second derivatives", "create_graph"], second)
    jacobian = torch.autograd.functional.jacobian
    check(jacobian(model, x).shape == (2, 7, 2, 3, 32, 32), "no jacobian")
    expect(fovea.Error, ["vectorize"], lambda: jacobian(model, x, vectorize=True))
    with torch.autograd.forward_ad.dual_level():
        expect(fovea.Error, ["forward_ad"], lambda: model(torch.autograd.forward_ad.make_dual(x, x)))
    given = model._text, "forward", x, [p.detach() for p in model.parameters()], None, []
    expect(fovea.Error, ["torch.func.jvp"], lambda: torch.func.jvp(lambda x: torch.ops.fovea.model(*given[:2], x, *given[3:])[0], (x,), (x,)))
    expect(RuntimeError, ["fovea::model"], lambda: torch.func.vmap(lambda x: torch.ops.fovea.model(*given[:2], x, *given[3:])[0])(x[None]))


def check_refused():
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    for convert in (lambda m: m.half(), lambda m: m.bfloat16(), lambda m: m.double(), lambda m: torch.nn.Sequential(m).to(torch.float16)):
        expect(fovea.Error, ["float32", "autocast"], lambda: convert(model))
    part = model.blocks[0]
    for register in (part.register_forward_hook, part.register_forward_pre_hook, part.register_full_backward_hook):
        expect(fovea.Error, ["hook", "forward_intermediates"], lambda: register(_twice))
    expect(AttributeError, ["num_classes"], lambda: model.reset_classifier(3))
    expect(AttributeError, ["fc_normm"], lambda: model.fc_normm)
    expect(fovea.Error, ["torch.jit.script"], lambda: torch.jit.script(model))
    expect(fovea.Error, ["torch.fx"], lambda: torch.fx.symbolic_trace(model))
    check(len(model.blocks) == 2 and list(model.blocks) == [model.blocks[0], model.blocks[-1]], "blocks")


def check_timm_interface():
    try:
        import timm
    except ImportError:
        print("timm is not there: what its users reach for is not held against it")
    else:
        check_intermediates(timm)
        check_frozen(timm)
        check_layer_decay(timm)
    check_recomputed()
    check_copies()
    check_inputs()
    check_derivatives()
    check_refused()
