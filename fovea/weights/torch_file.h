// Files of torch.save (.pt, .pth, .bin, .ckpt), read without Python: the zip form that torch has
// written since 1.6, and the older one. Nothing of the pickle in it is run: see files/pickle.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/files/pickle.h"
#include "fovea/weights/torch_tree.h"

namespace fovea {
class ZipFile;
}

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
  // The saved object itself, for what stands in it beside tensors; valid as long as the file.
  const PickleValue& root() const { return object_->root(); }
  // Tensors of one storage share its memory. Throws DataError: truncated, a wrong checksum.
  at::Tensor read(const StoredTensor& tensor);

 private:
  class Storages;
  class ZipStorages;
  class LegacyStorages;

  void open_zip(std::unique_ptr<ZipFile> zip);

  std::string path_;
  TorchTree tree_;
  std::unique_ptr<Storages> storages_;  // holds the bytes of object_
  std::unique_ptr<Pickle> object_;
  std::map<std::string, at::Tensor> read_storages_;  // bytes, by key
};

}  // namespace fovea::weights
