"""torch_check.py FILE.pt FILE.safetensors DCP: torch reads both as the same tensors, by name, dtype and bits; then it
writes the first as a Distributed Checkpoint."""
import sys

import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import torch_save_to_dcp

written = torch.load(sys.argv[1], weights_only=True)
mapped = torch.load(sys.argv[1], weights_only=True, mmap=True)
wanted = load_file(sys.argv[2])
assert set(written) == set(wanted) and len(written) > 10, sorted(set(written) ^ set(wanted))
for name, tensor in wanted.items():
    for found in (written[name], mapped[name]):
        assert found.dtype == tensor.dtype and found.shape == tensor.shape, (name, found.dtype, found.shape)
        assert torch.equal(found, tensor), name
torch_save_to_dcp(sys.argv[1], sys.argv[3])
print(f"{len(written)} tensors equal")
