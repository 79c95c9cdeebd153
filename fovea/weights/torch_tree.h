// Tensors among the values of a pickle that torch.save wrote: descriptions only, their numbers lie
// outside of the pickle.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/files/pickle.h"

namespace fovea::weights {

// The names that such pickles may hold, for PickleOptions: tensors, containers, and what training
// scripts save beside them (argparse.Namespace, NumPy's scalars), which is passed over.
std::span<const std::string_view> torch_pickle_names();

// A view of a storage.
struct StoredTensor {
  std::string name;  // "model.blocks.0.norm1.weight": the keys on the way there
  std::string top;   // the first of them; empty: the tensor lies in the outermost dict
  std::string storage;
  uint64_t storage_bytes = 0;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in elements
};

struct TorchTree {
  std::vector<StoredTensor> tensors;
  int64_t num_others = 0;  // numbers, texts ...: passed over
};

// Every tensor below `root`, in the order of the file. Throws DataError naming `source`: a view
// that reaches out of its storage or is larger than it, another kind of storage, nesting without
// end.
TorchTree read_torch_tree(const PickleValue& root, const std::string& source);

// "torch.float32" -> at::kFloat; throws DataError naming `source` for types that are not read.
at::ScalarType torch_dtype(std::string_view name, const std::string& source);

}  // namespace fovea::weights
