// Files of torch.save (.pt, .pth, .bin, .ckpt), read without Python: the zip form that torch has
// written since 1.6, and the older one. Nothing of the pickle in it is run: see core/pickle.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/weights/torch_tree.h"

namespace fovea::weights {

class TorchFile {
 public:
  // True where the bytes begin like one of the two.
  static bool is_legacy(const std::string& path);

  // Throws DataError: damaged, a TorchScript program, numbers of the other byte order, names that
  // are refused, storages of another size than announced.
  explicit TorchFile(const std::string& path);
  // The zip form as a part of another file.
  TorchFile(const std::string& path, uint64_t offset, uint64_t bytes);
  ~TorchFile();

  const std::vector<StoredTensor>& tensors() const { return tree_.tensors; }
  int64_t num_others() const { return tree_.num_others; }
  // Tensors of one storage share its memory. Throws DataError: truncated, a wrong checksum.
  at::Tensor read(const StoredTensor& tensor);

 private:
  class Storages;
  class ZipStorages;
  class LegacyStorages;

  std::string path_;
  TorchTree tree_;
  std::unique_ptr<Storages> storages_;
  std::map<std::string, at::Tensor> read_storages_;  // bytes, by key
};

}  // namespace fovea::weights
