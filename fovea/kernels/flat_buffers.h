// Flat buffers that those who share out parameters and an optimizer have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::kernels {

// Elements: where each parameter begins. 64 bytes of float32, a cache line and an AVX-512 register.
inline constexpr int64_t kFlatAlignment = 16;

// The elements that a parameter takes up in a flat buffer.
inline int64_t flat_size(int64_t num_elements) {
  return (num_elements + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment;
}

// Who has which part of a flat buffer, in elements. A buffer of equal shards, each of which is
// equal parts again: one, or as many as there are copies of the shard. Parts follow each other in
// the order of the shards.
struct FlatLayout {
  int64_t num_shards = 1;
  int64_t parts_of_shard = 1;
  int64_t part_size = 0;

  // The smallest one that has room for so many elements in aligned parts.
  static FlatLayout of(int64_t num_elements, int64_t num_shards, int64_t parts_of_shard) {
    const int64_t num_parts = num_shards * parts_of_shard;
    return {num_shards, parts_of_shard, flat_size((num_elements + num_parts - 1) / num_parts)};
  }

  int64_t shard_size() const { return part_size * parts_of_shard; }
  int64_t size() const { return shard_size() * num_shards; }
  int64_t shard_begin(int64_t shard) const { return shard * shard_size(); }
  int64_t part_begin(int64_t shard, int64_t part) const {
    return shard_begin(shard) + part * part_size;
  }
};

// What one process trains, [num_elements] each, laid out alike; zeros between the parameters.
struct FlatBuffers {
  at::Tensor values, gradients;
  at::Tensor copy;  // of the values, in the dtype of products; undefined: nobody wants one
};

// A view of a flat buffer, in the shape of a parameter. It has a version counter of its own, so
// that an in-place change of one parameter says nothing of the others.
at::Tensor flat_view(const at::Tensor& buffer, int64_t begin, at::IntArrayRef sizes);

// The gradient of a leaf becomes `view`, which is of a flat buffer, with the values that it had
// before; zeros where it had none.
void move_gradient(const at::Tensor& param, const at::Tensor& view);

}  // namespace fovea::kernels
