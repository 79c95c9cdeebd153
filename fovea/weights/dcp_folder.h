// Folders of torch.distributed.checkpoint: an index (.metadata, a pickle) and files of parts
// (__0_0.distcp), each part a file of torch.save of its own.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/nn/tensor_file.h"

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

  const std::vector<DcpTensor>& tensors() const { return tensors_; }
  int64_t num_others() const { return num_others_; }
  // Puts the parts of a tensor together. Throws DataError.
  at::Tensor read(const DcpTensor& tensor) const;

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
  int64_t num_others_ = 0;
};

}  // namespace fovea::weights
