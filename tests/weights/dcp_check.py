"""dcp_check.py DCP FILE.safetensors FILE.pt AGAIN: torch's format_utils turn the Distributed Checkpoint into FILE.pt,
which holds {"model": the tensors of the safetensors file}, by name, dtype and bits; and that into AGAIN, another one."""
import sys

import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp

folder, wanted_file, torch_file, again = sys.argv[1:]
dcp_to_torch_save(folder, torch_file)
written = torch.load(torch_file, weights_only=True)
assert list(written) == ["model"], list(written)
wanted = load_file(wanted_file)
assert set(written["model"]) == set(wanted) and len(wanted) > 10, sorted(set(written["model"]) ^ set(wanted))
for name, tensor in wanted.items():
    found = written["model"][name]
    assert found.dtype == tensor.dtype and found.shape == tensor.shape, (name, found.dtype, found.shape)
    assert torch.equal(found, tensor), name
torch_save_to_dcp(torch_file, again)
print(f"{len(wanted)} tensors equal")
