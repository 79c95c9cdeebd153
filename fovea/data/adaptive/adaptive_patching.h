// Adaptive patching: a sample as a sequence of patches of one size, cut along a quadtree or octree
// that is fine where the detail is (Zhang et al., "Adaptive Patching for High-resolution Image
// Segmentation with Transformers", SC 2024). Functions of the sample and its random stream.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/detail.h"
#include "fovea/data/adaptive/resample.h"
#include "fovea/data/adaptive/tree.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/large_image/region_source.h"
#include "fovea/data/volume/volume_values.h"

namespace fovea::data {

// C channels, L patches, p patch size, d 2 or 3, T trees: 1, or C with separate_channels. Patches
// that the tree has no leaves for are padding: tokens 0, size 0, centre -1.
struct PatchSpans {
  std::span<float> tokens;          // [C, L, p^d]; rows of a patch one behind the other
  std::span<float> sizes;           // [T, L]: longest side of the leaf, in pixels
  std::span<float> centers;         // [T, L, d]: x, y(, z) in pixels from the outer corner
  std::span<uint8_t> padding_mask;  // [T, L]: 1 = padding, not to be attended to
  std::span<PatchTree> trees;       // [T]
};

// The same with memory of its own.
struct PatchSequence {
  int64_t channels = 0;
  int64_t fixed_length = 0;
  int64_t patch_size = 0;
  int64_t dims = 2;
  std::vector<float> tokens;
  std::vector<float> sizes;
  std::vector<float> centers;
  std::vector<uint8_t> padding_mask;
  std::vector<PatchTree> trees;

  int64_t token_size() const {
    return dims == 3 ? patch_size * patch_size * patch_size : patch_size * patch_size;
  }
  PatchSpans spans() { return {tokens, sizes, centers, padding_mask, trees}; }
};

// Buffers that a thread keeps from sample to sample.
struct PatchingScratch {
  DetailMap detail;
  TreeScratch tree;
  ResampleScratch resample;
  Image channel;
};

// Where tokens of a large image go: one channel of one patch, [p * p], at a time.
using TokenSink = std::function<void(int64_t channel, int64_t leaf, std::span<const float> token)>;

struct OutOfCoreOptions {
  int64_t band_bytes = int64_t{64} << 20;  // of the image that is held at a time
  // What the detail may take; two bits a pixel for edges. Above it patch() refuses.
  int64_t max_detail_bytes = int64_t{1536} << 20;
};

class AdaptivePatcher {
 public:
  // Throws ConfigError with all that validate() finds.
  explicit AdaptivePatcher(AdaptivePatchingConfig config);

  // random: what smoothing and threshold are drawn from; null: the middle of each, for evaluation.
  // scaling: what becomes of values in the tokens, such as normalisation; images are on a scale of
  // 0 to 255 before it. Throws DataError where the sample is empty, Error where `out` has no room
  // of the sequence's size.
  void patch(const ImageView& image, RandomStream* random, const ChannelScaling& scaling,
             const PatchSpans& out, PatchingScratch& scratch) const;
  // A volume of depth 1 gives patches of two dimensions.
  void patch(const VolumeValues& volume, RandomStream* random, const ChannelScaling& scaling,
             const PatchSpans& out, PatchingScratch& scratch) const;

  // The same out of core: the sequence that the image in memory gives, bit for bit (bytes as an
  // image, anything else as a volume of depth 1). Tokens go to `sink` as their leaves are passed,
  // of padding nothing; where it is null to out.tokens, which is empty else. Reads the image twice
  // a tree, from above to below. Throws ConfigError where the detail would not fit, DataError where
  // the image cannot be read.
  void patch(const RegionSource& image, RandomStream* random, const ChannelScaling& scaling,
             const TokenSink& sink, const OutOfCoreOptions& options, const PatchSpans& out) const;

  // All three into a sequence, which keeps its buffers; out of core its tokens stay empty.
  void patch(const ImageView& image, RandomStream* random, const ChannelScaling& scaling,
             PatchSequence& out, PatchingScratch& scratch) const;
  void patch(const Volume& volume, RandomStream* random, const ChannelScaling& scaling,
             PatchSequence& out, PatchingScratch& scratch) const;
  void patch(const RegionSource& image, RandomStream* random, const ChannelScaling& scaling,
             const TokenSink& sink, const OutOfCoreOptions& options, PatchSequence& out) const;

  // The mask of a sample, a class for each voxel, along one of its trees: tokens [L, p^d], -1 (not
  // labelled) in the padding.
  void patch_labels(std::span<const int32_t> classes, const PatchTree& tree,
                    std::span<int32_t> tokens) const;

  const AdaptivePatchingConfig& config() const { return config_; }

 private:
  DetailDraw draw(bool is_image, RandomStream* random) const;
  void start(int64_t channels, int64_t dims, bool has_tokens, PatchSequence& out) const;
  void check_room(int64_t channels, int64_t dims, const PatchSpans& out) const;
  void grow(VolumeSize size, const NodeValues& values, PatchTree& tree, TreeScratch& scratch) const;
  void sweep(const RegionSource& image, int64_t channel, const ChannelScaling& scaling,
             const TokenSink& sink, const OutOfCoreOptions& options, const PatchTree& tree) const;
  void describe(size_t index, const PatchSpans& out) const;

  AdaptivePatchingConfig config_;
};

}  // namespace fovea::data
