// Checkpoints of t5x (JAX): a folder checkpoint_STEP with a tree of flax.serialization in the file
// `checkpoint`, whose leaves are arrays, or say in which zarr array beside it they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace fovea::weights {

// A leaf of the tree.
struct T5xArray {
  std::string name;         // "target/vision_model/head/kernel", "state/step"
  at::Tensor value;         // where the tree has it; undefined: it is in
  std::string folder = {};  // this folder of a zarr array, of which the tree says
  std::string dtype = {};   // NumPy's code; empty: nothing
  std::vector<int64_t> shape = {};
  bool has_shape = false;
};

class T5xFolder {
 public:
  // True for a checkpoint, for the folder of a run with checkpoint_STEP in it, and for the layouts
  // that came after, which are refused by name.
  static bool is_one(const std::string& path);

  // Of a run's folder the latest checkpoint. Reads the tree. Throws DataError: another layout,
  // damaged, arrays outside of the folder, leaves that are neither arrays nor numbers.
  explicit T5xFolder(const std::string& path);

  const std::string& path() const { return path_; }  // of the checkpoint itself
  // In the order of the tree.
  const std::vector<T5xArray>& arrays() const { return arrays_; }
  const T5xArray* find(std::string_view name) const;  // null: there is none
  // Throws DataError: what files/zarr.h throws, another shape or dtype than the tree says.
  at::Tensor read(const T5xArray& array) const;

 private:
  friend class T5xTree;

  std::string path_;
  std::vector<T5xArray> arrays_;
};

}  // namespace fovea::weights
