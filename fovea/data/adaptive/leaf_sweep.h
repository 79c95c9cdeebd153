// Walks down a large image and its tree at once: leaves to patches and back, with no more in memory
// than the leaves that a row meets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fovea/data/adaptive/resample.h"
#include "fovea/data/adaptive/resample_block.h"
#include "fovea/data/adaptive/tree.h"

namespace fovea::data::patching {

// take(leaf, token [C, p^2]): a patch is complete. The order is that of the last rows of leaves.
using TakeToken = std::function<void(int64_t leaf, std::span<const float> token)>;

// The tokens that image_to_tokens (of bytes) and volume_to_tokens (of floats, one channel at a
// time) give, bit for bit. These read leaves where they lie, which is faster where the image is in
// memory. T: uint8_t or float.
template <class T>
class LeafSweep {
 public:
  // scale, shift: [channels]. tree and take outlive this.
  LeafSweep(const PatchTree& tree, int64_t p, const ResampleRules& rules, std::vector<float> scale,
            std::vector<float> shift, TakeToken take);
  ~LeafSweep();
  // Row y [W, C]; every row once, ascending.
  void add_row(int64_t y, const T* row);

 private:
  struct OpenLeaf;
  void open(int32_t index);
  Block<T> block_of(OpenLeaf& leaf) const;
  void add_line(OpenLeaf& leaf, int64_t y, const T* line);
  void close(OpenLeaf& leaf);

  const PatchTree& tree_;
  int64_t p_;
  ResampleRules rules_;
  ResampleScratch scratch_;
  std::vector<float> scale_, shift_;
  TakeToken take_;
  std::vector<int32_t> order_;
  size_t next_ = 0;
  std::vector<std::unique_ptr<OpenLeaf>> open_;
  std::vector<std::unique_ptr<OpenLeaf>> free_;
};

extern template class LeafSweep<uint8_t>;
extern template class LeafSweep<float>;

// give(leaf, token): fills the patch of a leaf that the walk has reached.
template <class T>
using GiveToken = std::function<void(int64_t leaf, std::span<T> token)>;

// The way back of one channel, a band of rows at a time, from above. Tokens are asked for when the
// walk meets their leaf and held until it leaves it. T: float or int32_t.
template <class T>
class LeafRows {
 public:
  // Every token resized to its leaf as tokens_to_volume does it, bit for bit; without rules each
  // pixel gets the nearest of the p x p, for numbers that are not to be mixed. With p = 1 a leaf is
  // of one value. tree outlives this.
  LeafRows(const PatchTree& tree, int64_t p, std::optional<ResampleRules> rules, GiveToken<T> give);
  // Rows [y, y + count) -> out [count, W].
  void read(int64_t y, int64_t count, T* out);

 private:
  void resize(const TreeBox& leaf, const float* token, int64_t first, int64_t rows, float* out);

  const PatchTree& tree_;
  int64_t p_;
  std::optional<ResampleRules> rules_;
  ResampleScratch scratch_;
  GiveToken<T> give_;
  std::vector<int32_t> order_;
  size_t next_ = 0;
  std::map<int32_t, std::vector<T>> open_;
};

extern template class LeafRows<int32_t>;
extern template class LeafRows<float>;

}  // namespace fovea::data::patching
