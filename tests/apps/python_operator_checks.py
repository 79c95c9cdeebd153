"""A model as an operator of torch: what torch.compile, torch.export and others make of it is eager's to the bit, or refused by name."""
import copy
import io
import os
import subprocess
import sys
import tempfile

import fovea
import python_ranks
import tiny_run
import torch
from python_checks import SMALL, check, expect, is_close


def model_with_drops(**options):
    return fovea.create_model("vit_tiny_patch16_224", **SMALL, drop_path_rate=0.5, proj_drop_rate=0.3, **options)


def outcome(model, call, x):
    """Output and gradients, by name; None: a parameter has none."""
    model.zero_grad()
    x = x.clone().requires_grad_()
    torch.manual_seed(3)
    output = call(x)
    output.float().square().mean().backward()
    return {"output": output.detach(), "input": x.grad, **{name: p.grad for name, p in model.named_parameters()}}


def check_same(found, expected, *what):
    for name, value in expected.items():
        is_same = found[name] is None if value is None else found[name] is not None and found[name].equal(value)
        check(is_same, *what, name, "is another one:", found[name], value)


def check_captured():
    """In one graph, for batches of any size."""
    for backend in ("eager", "aot_eager"):
        model = model_with_drops()
        graphs = []

        def counting(graph, inputs):
            graphs.append(graph)
            return torch._dynamo.lookup_backend(backend)(graph, inputs)

        def step(x):
            return model(x * 2).softmax(-1)
        torch.compiler.reset()
        compiled = torch.compile(step, backend=counting, fullgraph=True, dynamic=True)
        for size in (2, 3, 5):
            x = torch.randn(size, 3, 32, 32)
            check_same(outcome(model, compiled, x), outcome(model, step, x), backend, "batch", size)
        check(len(graphs) == 1, backend, len(graphs), "graphs for batches of three sizes; expected one")
    with torch.autocast("cpu", torch.bfloat16):
        check_same(outcome(model, compiled, x), outcome(model, step, x), "under autocast")
    model.eval().requires_grad_(False)
    check_same(outcome(model, compiled, x), outcome(model, step, x), "weights that are frozen")
    with torch.no_grad():
        check(compiled(x).equal(step(x)), "without gradients")


def check_parts_captured():
    """What of a pass has no use for a parameter leaves it without a gradient."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL, global_pool="avg", reg_tokens=2)
    tokens = model.forward_features(torch.randn(2, 3, 32, 32)).detach()
    for function, x in ((model.forward_features, torch.randn(2, 3, 32, 32)), (model.forward_head, tokens),
                        (lambda x: model.forward_head(x, pre_logits=True), tokens)):
        compiled = torch.compile(function, backend="eager", fullgraph=True)
        check_same(outcome(model, compiled, x), outcome(model, function, x), "a part of a pass")


def arguments_of(model, x, wanted):
    return model._text, "forward", x, [p.detach().requires_grad_(bool(wanted)) for p in model.parameters()], None, wanted


def check_operator():
    """By torch's own checks; and what a pass is without the module."""
    model = fovea.create_model("vit_tiny_patch16_224", **{**SMALL, "depth": 1, "img_size": 16})
    x = torch.randn(2, 3, 16, 16)
    every = list(range(1, 1 + len(list(model.parameters()))))
    for wanted in ([], [0, *every]):
        given = arguments_of(model, x.clone().requires_grad_(0 in wanted), wanted)
        torch.library.opcheck(torch.ops.fovea.model.default, given)
    given = arguments_of(model, x, every)
    output, tape = torch.ops.fovea.model(*given)
    first = torch.autograd.grad(output.sum(), given[3], retain_graph=True)
    check(all(map(torch.equal, first, torch.autograd.grad(output.sum(), given[3]))), "a graph that is kept gives other gradients")
    expect(RuntimeError, ["second time"], lambda: torch.autograd.grad(output.sum(), given[3]))
    expect(fovea.Error, ["copy"], lambda: torch.ops.fovea.model_backward(torch.ones(2, 7), tape.clone(), given[3]))
    expect(fovea.Error, ["parameters", "all of them"], lambda: torch.ops.fovea.model(*given[:3], given[3][1:], None, []))
    expect(fovea.Error, ["wanted"], lambda: torch.ops.fovea.model(*given[:5], [])[0].sum().backward())
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = model(mode.from_tensor(x.bfloat16()))
    check(fake.shape == (2, 7) and fake.dtype == torch.bfloat16, "a pass of shapes alone gives", fake)


def check_exported():
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL).eval()
    x = torch.randn(2, 3, 32, 32)
    file = io.BytesIO()
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}), file)
        file.seek(0)
        loaded = torch.export.load(file).module()
        for size in (2, 5):
            images = torch.randn(size, 3, 32, 32)
            check(loaded(images).equal(model(images)), "an exported model gives something else for", size, "images")


def check_other_parameters():
    """Tensors that stand in the parameters' places are computed with."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    other = fovea.create_model("vit_tiny_patch16_224", **SMALL, seed=1)
    x = torch.randn(2, 3, 32, 32)
    values = {name: p.detach().requires_grad_() for name, p in other.named_parameters()}
    output = torch.func.functional_call(model, values, x)
    check(output.equal(other(x)) and not output.equal(model(x)), "functional_call gives something else")
    found = torch.autograd.grad(output.sum(), list(values.values()))
    check(all(map(torch.equal, found, torch.autograd.grad(other(x).sum(), list(other.parameters())))), "gradients by functional_call")
    assigned = copy.deepcopy(model)
    assigned.load_state_dict(other.state_dict(), assign=True)
    check(assigned(x).equal(other(x)), "load_state_dict(assign=True) is not seen")
    model.head.weight = torch.nn.Parameter(torch.zeros(7, 192))
    check(model(x).equal(model.head.bias.expand(2, 7)), "another parameter is not seen")
    model.head.weight = torch.nn.Parameter(torch.zeros(9, 192))
    expect(fovea.Error, ["head.weight", "[9, 192]", "[7, 192]"], lambda: model(x))
    model.head = torch.nn.Linear(192, 7)
    expect(fovea.Error, ["head", "num_classes"], lambda: model(x))


def check_data_parallel():
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    x = torch.randn(2, 3, 32, 32)
    expected = outcome(model, model, x)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(tiny_run.free_port()), RANK="0", WORLD_SIZE="1")
    torch.distributed.init_process_group("gloo")
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    for name, call in (("DDP", parallel), ("DDP, compiled", torch.compile(parallel, backend="aot_eager"))):
        check_same(outcome(model, call, x), expected, name)
    torch.distributed.destroy_process_group()
    for name in ("RANK", "WORLD_SIZE"):
        del os.environ[name]


def check_ranks():
    """Two processes do what one does, plain and with the operator."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    expected = python_ranks.train(torch, model, model, slice(None))
    port = str(tiny_run.free_port())
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "found.pt")
        ranks = [subprocess.Popen([sys.executable, python_ranks.__file__, out, os.path.dirname(os.path.dirname(fovea.__file__))],
                                  env={**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": "2"})
                 for rank in range(2)]
        check([rank.wait() for rank in ranks] == [0, 0], "a rank has failed")
        found = torch.load(out)
    for kind, values in found.items():
        check(values.keys() == expected.keys(), kind, "has", values.keys())
        for name, value in expected.items():
            check(is_close(values[name], value, python_ranks.STEPS), "two processes,", kind, name, "differs by",
                  (values[name] - value).abs().max(), "of", value.abs().max())


def check_refused():
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    x = torch.randn(2, 3, 32, 32)
    expect(fovea.Error, ["torch.func"], lambda: torch.func.vmap(model)(x[None]))
    expect(fovea.Error, ["torch.func"], lambda: torch.func.grad(lambda x: model(x).sum())(x))
    expect(fovea.Error, ["torch.jit"], lambda: torch.jit.trace(model, x))
    torch.compiler.reset()
    expect(Exception, ["model.img_size", "3, 24, 32]"], lambda: torch.compile(model, backend="eager", fullgraph=True)(x[:, :, :24]))


def check_operators():
    check_captured()
    check_parts_captured()
    check_operator()
    check_exported()
    check_other_parameters()
    check_refused()
    check_data_parallel()
    check_ranks()
