#include "fovea/data/batch/batch_arrays.h"

#include <type_traits>
#include <utility>

namespace fovea::data {
namespace {

template <class T>
constexpr const char* dtype_of_values() {
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, uint8_t>) return "U8";
  if constexpr (std::is_same_v<T, int32_t>) return "I32";
  if constexpr (std::is_same_v<T, int64_t>) return "I64";
}

class ArrayList {
 public:
  template <class T>
  void add(std::string name, std::vector<T>& values, std::vector<int64_t> shape) {
    arrays_.push_back({std::move(name), dtype_of_values<T>(), std::move(shape),
                       std::as_writable_bytes(std::span(values))});
  }
  // Of an array that not every batch has.
  template <class T>
  void add_if_there(std::string name, std::vector<T>& values, std::vector<int64_t> shape) {
    if (!values.empty()) add(std::move(name), values, std::move(shape));
  }
  std::vector<BatchArray> take() { return std::move(arrays_); }

 private:
  std::vector<BatchArray> arrays_;
};

void add_adaptive_patches(AdaptivePatches& patches, int64_t rows, ArrayList& arrays) {
  if (patches.channels == 0) return;
  const int64_t trees = patches.num_trees, length = patches.fixed_length;
  const int64_t token = patches.token_size();
  arrays.add("patches.tokens", patches.tokens, {rows, patches.channels, length, token});
  arrays.add("patches.sizes", patches.sizes, {rows, trees, length});
  arrays.add("patches.centers", patches.centers, {rows, trees, length, patches.dims});
  arrays.add("patches.padding", patches.padding, {rows, trees, length});
  arrays.add_if_there("patches.labels", patches.labels, {rows, length, token});
}

void add_image_patches(ImagePatches& patches, int64_t rows, ArrayList& arrays) {
  const int64_t count = rows * patches.max_patches;
  const int64_t values =
      count > 0 ? static_cast<int64_t>(patches.values.size()) / count : int64_t{0};
  arrays.add("image_patches.values", patches.values, {rows, patches.max_patches, values});
  arrays.add("image_patches.grids", patches.grids, {rows, 2});
}

}  // namespace

std::vector<BatchArray> arrays_of(Batch& batch) {
  ArrayList arrays;
  const int64_t rows = batch.size();
  if (batch.image_patches.patch_size > 0) {
    add_image_patches(batch.image_patches, rows, arrays);
  } else if (!batch.bytes.empty()) {
    arrays.add("images", batch.bytes, batch.image_shape);
  } else {
    arrays.add("images", batch.images, batch.image_shape);
  }
  std::vector<int64_t> mask_shape = batch.image_shape;  // without C
  if (mask_shape.size() > 1) mask_shape.erase(mask_shape.begin() + 1);
  arrays.add_if_there("masks", batch.masks, std::move(mask_shape));
  add_adaptive_patches(batch.patches, rows, arrays);
  arrays.add_if_there("labels", batch.labels, {rows});
  if (!batch.targets.empty()) {
    const auto classes = static_cast<int64_t>(batch.targets.size()) / rows;
    arrays.add("targets", batch.targets, {rows, classes});
  }
  arrays.add("indices", batch.indices, {rows});
  arrays.add("rows", batch.rows, {rows});
  arrays.add("weights", batch.weights, {rows});
  return arrays.take();
}

}  // namespace fovea::data
