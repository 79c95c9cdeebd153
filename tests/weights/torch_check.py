"""torch_check.py FILE.pt FILE.safetensors: torch reads both as the same tensors, by name, order, dtype and bits."""
import sys

import torch
from safetensors.torch import load_file

written = torch.load(sys.argv[1], weights_only=True)
mapped = torch.load(sys.argv[1], weights_only=True, mmap=True)
wanted = load_file(sys.argv[2])
assert set(written) == set(wanted) and len(written) > 10, sorted(set(written) ^ set(wanted))
for name, tensor in wanted.items():
    for found in (written[name], mapped[name]):
        assert found.dtype == tensor.dtype and found.shape == tensor.shape, (name, found.dtype, found.shape)
        assert torch.equal(found, tensor), name
print(f"{len(written)} tensors equal")
