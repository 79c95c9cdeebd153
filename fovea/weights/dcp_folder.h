// Folders of torch.distributed.checkpoint: an index (.metadata, a pickle) and files of parts
// (__0_0.distcp), each part a file of torch.save of its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/torch_file.h"
#include "fovea/weights/torch_object.h"

namespace fovea::weights {

struct DcpTensor {
  std::string name;  // "model.blocks.0.norm1.weight"
  std::string top;   // the key of the saved dict that it lay under; empty: none
};

class DcpFolder {
 public:
  static bool is_one(const std::string& path);

  // Reads the index. Throws DataError: no such folder, names that are refused, parts that overlap,
  // leave a gap or lie outside of their tensor, files outside of the folder.
  explicit DcpFolder(const std::string& path);

  // In the order of the saved dict.
  const std::vector<DcpTensor>& tensors() const { return tensors_; }
  // What is no tensor: "optimizer.param_groups.0.lr".
  std::vector<std::string> other_names() const;
  int64_t num_others() const { return static_cast<int64_t>(others_.size()); }
  // The keys on the way to one of the others, of a dict or a list; its name alone where the folder
  // was saved without keys.
  std::vector<TorchKey> keys_of_other(const std::string& name) const;
  // Puts the parts of a tensor together. Throws DataError.
  at::Tensor read(const DcpTensor& tensor) const;
  // The file whose root is one of the others; null: there is none of that name. Throws DataError.
  std::unique_ptr<TorchFile> open_other(const std::string& name) const;

 private:
  struct Part {
    std::string file;
    uint64_t offset = 0, bytes = 0;
    std::vector<int64_t> starts, sizes;
  };
  struct Whole {
    std::vector<int64_t> sizes;
    at::ScalarType dtype = at::kFloat;
    std::vector<Part> parts;
  };
  friend class DcpIndex;

  std::string path_;
  std::vector<DcpTensor> tensors_;
  std::map<std::string, Whole> wholes_;
  std::map<std::string, Part> others_;
  std::map<std::string, std::vector<TorchKey>> keys_of_others_;
};

}  // namespace fovea::weights
