// Which of a GPU's kernels of attention is the fastest for a shape: measured where the shape is
// first met, and kept from then on.
#pragma once

#include <c10/core/ScalarType.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "fovea/kernels/measured_choices.h"

namespace fovea::kernels {

enum class AttentionKernel { kFlash, kCudnn, kEfficient, kMath };

// "flash", "cudnn", "efficient", "math".
const char* attention_kernel_name(AttentionKernel kernel);

struct AttentionShape {
  at::ScalarType dtype;
  int64_t batch, heads, queries, keys, head_dim;
  bool has_mask, has_gradient;

  // "BFloat16 64 x 12 x 197 x 197 x 64 masked with gradients"
  std::string name() const;
};

// May be used from several threads.
class AttentionTable {
 public:
  // Seconds that a kernel takes for the shape; infinity where it fails.
  using Timer = std::function<double(AttentionKernel)>;

  AttentionTable();

  // Of an earlier fastest(), or of the file.
  std::optional<AttentionKernel> find(const AttentionShape& shape) const;

  // The fastest of the kernels that take the shape, of equal ones the first; without any, or where
  // all fail, plain products. What was measured is logged and kept; of a single one no time is
  // taken.
  AttentionKernel fastest(const AttentionShape& shape, std::span<const AttentionKernel> candidates,
                          const Timer& timer);

  ChoiceTable& choices() { return choices_; }

 private:
  // -> what stands for the shape.
  AttentionKernel keep(const AttentionShape& shape, AttentionKernel kernel);

  ChoiceTable choices_;  // by the shape's name
};

// The one of this process.
AttentionTable& attention_table();

}  // namespace fovea::kernels
