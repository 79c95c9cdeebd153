// Which of a GPU's kernels of attention is the fastest for a shape: measured where the shape is
// first met, and kept from then on, also in a file from start to start of a run.
#pragma once

#include <c10/core/ScalarType.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

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

  // Of an earlier fastest(), or of the file.
  std::optional<AttentionKernel> find(const AttentionShape& shape) const;

  // The fastest of the kernels that take the shape, of equal ones the first; without any, or where
  // all fail, plain products. What was measured is logged and written to the file; of a single one
  // no time is taken.
  AttentionKernel fastest(const AttentionShape& shape, std::span<const AttentionKernel> candidates,
                          const Timer& timer);

  // From now on the table is that of the file, where there is one, and what is measured is written
  // to it. A damaged file is one that is not there, and a warning says what that costs.
  void keep_in(const std::string& path);
  // The table stays, the file is left alone.
  void stop_keeping();

 private:
  // -> what stands for the shape.
  AttentionKernel keep(const std::string& shape, AttentionKernel kernel);

  mutable std::mutex mutex_;
  std::map<std::string, AttentionKernel> kernels_;  // by the shape's name
  std::string path_;                                // empty: none
};

// The one of this process.
AttentionTable& attention_table();

// While alive the table of this process is kept in a file.
class KeptAttentionTable {
 public:
  explicit KeptAttentionTable(const std::string& path) { attention_table().keep_in(path); }
  ~KeptAttentionTable() { attention_table().stop_keeping(); }
  KeptAttentionTable(const KeptAttentionTable&) = delete;
  KeptAttentionTable& operator=(const KeptAttentionTable&) = delete;
};

}  // namespace fovea::kernels
