"""A few steps of SGD with DistributedDataParallel, each process on its share of the batch; run by python_operator_checks.py, which compares
with one process on all of it.

usage: python_ranks.py OUT PACKAGE_FOLDER, with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set; rank 0 writes OUT.
"""
import os
import sys

STEPS, BATCH = 3, 8


def train(torch, call, model, rows):
    """-> losses and the first step's gradients of the batch's rows in this slice, and the parameters at the end."""
    generator = torch.Generator().manual_seed(5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, gradients = [], {}
    for step in range(STEPS):
        images = torch.randn(BATCH, 3, 32, 32, generator=generator)
        labels = torch.arange(BATCH) % 7
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(call(images[rows]), labels[rows])
        loss.backward()
        losses.append(loss.detach())
        gradients = gradients or {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
    return {"losses": torch.stack(losses), **gradients, **{f"end.{name}": p.detach() for name, p in model.named_parameters()}}


def main():
    out, package = sys.argv[1:]
    sys.path.insert(0, package)
    import fovea
    import torch
    from python_checks import SMALL
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    rows = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    found = {}
    for name in ("plain", "operator"):
        torch.manual_seed(rank)
        model = fovea.create_model("vit_tiny_patch16_224", **SMALL, seed=rank)  # DDP gives all of them rank 0's
        if name == "operator":  # as in torch.compile, whose start takes seconds
            model._has_others = lambda parameters: True
        found[name] = train(torch, torch.nn.parallel.DistributedDataParallel(model), model, rows)
        torch.distributed.all_reduce(found[name]["losses"], torch.distributed.ReduceOp.SUM)
        found[name]["losses"] /= ranks
    if rank == 0:
        torch.save(found, out)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
