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
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// C channels, L patches, p patch size, d 2 or 3, T trees: 1, or C with separate_channels. Patches
// that the tree has no leaves for are padding: tokens 0, size 0, centre -1.
struct PatchSequence {
  int64_t channels = 0;
  int64_t fixed_length = 0;
  int64_t patch_size = 0;
  int64_t dims = 2;
  std::vector<float> tokens;          // [C, L, p^d]; rows of a patch one behind the other
  std::vector<float> sizes;           // [T, L]: longest side of the leaf, in pixels
  std::vector<float> centers;         // [T, L, d]: x, y(, z) in pixels from the outer corner
  std::vector<uint8_t> padding_mask;  // [T, L]: 1 = padding, not to be attended to
  std::vector<PatchTree> trees;       // [T]

  int64_t token_size() const {
    return dims == 3 ? patch_size * patch_size * patch_size : patch_size * patch_size;
  }
};

// Buffers that a thread keeps from sample to sample.
struct PatchingScratch {
  DetailMap detail;
  TreeScratch tree;
  ResampleScratch resample;
  Image channel;
};

// Where tokens of a large image go and come from: one channel of one patch, [p * p], at a time.
using TokenSink = std::function<void(int64_t channel, int64_t leaf, std::span<const float> token)>;
using TokenReader = std::function<void(int64_t channel, int64_t leaf, std::span<float> token)>;
// count rows of a map from row y on, [count, W, C]; from above to below.
using MapRowSink = std::function<void(int64_t y, int64_t count, std::span<const float> rows)>;

struct OutOfCoreOptions {
  int64_t band_bytes = int64_t{64} << 20;  // of the image or the map that is held at a time
  // What the detail may take; two bits a pixel for edges. Above it patch() refuses.
  int64_t max_detail_bytes = int64_t{1536} << 20;
};

class AdaptivePatcher {
 public:
  // Throws ConfigError with all that validate() finds.
  explicit AdaptivePatcher(AdaptivePatchingConfig config);

  // random: what smoothing and threshold are drawn from; null: the middle of each, for evaluation.
  // scaling: what becomes of values in the tokens, such as normalisation; images are on a scale of
  // 0 to 255 before it. `out` keeps its buffers. Throws DataError where the sample is empty.
  void patch(const ImageView& image, RandomStream* random, const ChannelScaling& scaling,
             PatchSequence& out, PatchingScratch& scratch) const;
  // A volume of depth 1 gives patches of two dimensions.
  void patch(const Volume& volume, RandomStream* random, const ChannelScaling& scaling,
             PatchSequence& out, PatchingScratch& scratch) const;

  // The same out of core: the sequence that the image in memory gives, bit for bit (bytes as an
  // image, anything else as a volume of depth 1). out.tokens stays empty: tokens go to `sink` as
  // their leaves are passed, of padding nothing. Reads the image twice a tree, from above to below.
  // Throws ConfigError where the detail would not fit, DataError where the image cannot be read.
  void patch(const RegionSource& image, RandomStream* random, const ChannelScaling& scaling,
             const TokenSink& sink, const OutOfCoreOptions& options, PatchSequence& out) const;

  // The mask of a sample along one of its trees: tokens [L, p^d], -1 (not labelled) in the padding.
  void patch_labels(const LabelMap& labels, const PatchTree& tree,
                    std::vector<int32_t>& tokens) const;

  // The inverse: predicted tokens [C, L, p^d] in the layout of `sequence`, each resampled to its
  // leaf. out: C channels over the whole image (depth 1) or volume. Exact where a leaf is as large
  // as a patch. Not scaled back.
  void unpatch(std::span<const float> tokens, int64_t channels, const PatchSequence& sequence,
               Volume& out, PatchingScratch& scratch) const;
  // Predicted classes [L, p^d] -> a class for each voxel.
  void unpatch_labels(std::span<const int32_t> tokens, const PatchTree& tree,
                      LabelMap& labels) const;

  // Both out of core; sequence: its trees' sizes and leaves are enough. `tokens` is asked for each
  // patch once a channel.
  void unpatch(const TokenReader& tokens, int64_t channels, const PatchSequence& sequence,
               const OutOfCoreOptions& options, const MapRowSink& rows) const;

  const AdaptivePatchingConfig& config() const { return config_; }

 private:
  DetailDraw draw(bool is_image, RandomStream* random) const;
  void start(int64_t channels, int64_t dims, PatchSequence& out) const;
  void grow(VolumeSize size, const NodeValues& values, PatchTree& tree, TreeScratch& scratch) const;
  void sweep(const RegionSource& image, int64_t channel, const ChannelScaling& scaling,
             const TokenSink& sink, const OutOfCoreOptions& options, const PatchTree& tree) const;
  void describe(int64_t index, PatchSequence& out) const;
  void clear_padding(int64_t first_channel, int64_t last_channel, int64_t leaves,
                     PatchSequence& out) const;

  AdaptivePatchingConfig config_;
};

}  // namespace fovea::data
