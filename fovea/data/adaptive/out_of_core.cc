// AdaptivePatcher on images that are too large for memory.
#include <algorithm>
#include <deque>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/leaf_sweep.h"
#include "fovea/data/adaptive/region_detail.h"
#include "fovea/data/adaptive/region_rows.h"

namespace fovea::data {
namespace {

using patching::LeafSweep;

double in_gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

void check_detail_bytes(const RegionSource& image, int64_t channels,
                        const AdaptivePatchingConfig& config, bool is_noise, int64_t most) {
  const int64_t bytes = patching::region_detail_bytes(image.format(), channels, config, is_noise);
  if (bytes <= most) return;
  fail<ConfigError>(
      "{}: the detail of {}x{} pixels (criterion={}, min_leaf={}) takes {:.2f} GiB; expected at "
      "most {:.2f}; allow more, or choose another criterion or a larger min_leaf (edges take two "
      "bits a pixel, the others four bytes a smallest leaf)",
      image.name(), image.format().size.height, image.format().size.width, config.criterion,
      config.min_leaf, in_gib(bytes), in_gib(most));
}

// Channel `first` and those after it of an image of bytes, in one walk.
void sweep_bytes(const RegionSource& image, int64_t channel, const AdaptivePatchingConfig& config,
                 int64_t band_bytes, LeafSweep<uint8_t>& sweep) {
  patching::DetailRows rows(image, channel, config, 1, band_bytes);
  for (int64_t y = 0; y < image.format().size.height; ++y) sweep.add_row(y, rows.row(y));
}

// The channels of an image of any other kind, one walk for all.
void sweep_floats(const RegionSource& image, int64_t first, int64_t band_bytes,
                  std::deque<LeafSweep<float>>& sweeps) {
  const RegionFormat& format = image.format();
  RegionRows rows(image, band_bytes);
  std::vector<float> values(static_cast<size_t>(format.size.width * format.channels));
  std::vector<float> plane(static_cast<size_t>(format.size.width));
  for (int64_t y = 0; y < format.size.height; ++y) {
    row_to_floats(image, y, rows.row(y), values.data());
    for (size_t s = 0; s < sweeps.size(); ++s) {
      const float* from = values.data() + first + static_cast<int64_t>(s);
      for (float& value : plane) {
        value = *from;
        from += format.channels;
      }
      sweeps[s].add_row(y, plane.data());
    }
  }
}

}  // namespace

void AdaptivePatcher::patch(const RegionSource& image, RandomStream* random,
                            const ChannelScaling& scaling, const TokenSink& sink,
                            const OutOfCoreOptions& options, PatchSequence& out) const {
  const RegionFormat& format = image.format();
  check_scaling(scaling, format.channels);
  start(format.channels, 2, out);
  out.tokens.clear();
  const DetailDraw detail = draw(true, random);
  const auto num_trees = static_cast<int64_t>(out.trees.size());
  for (int64_t t = 0; t < num_trees; ++t) {
    const int64_t channel = num_trees > 1 ? t : -1;
    check_detail_bytes(image, channel < 0 ? format.channels : 1, config_, detail.is_noise,
                       options.max_detail_bytes);
    PatchTree& tree = out.trees[static_cast<size_t>(t)];
    {
      patching::RegionDetail values;
      values.build(image, channel, config_, detail, random, options.band_bytes);
      TreeScratch scratch;
      grow({1, format.size.height, format.size.width}, values, tree, scratch);
    }  // what the detail took is free before the tokens
    sweep(image, channel, scaling, sink, options, tree);
    describe(t, out);
  }
}

void AdaptivePatcher::sweep(const RegionSource& image, int64_t channel,
                            const ChannelScaling& scaling, const TokenSink& sink,
                            const OutOfCoreOptions& options, const PatchTree& tree) const {
  const int64_t p = config_.patch_size;
  const auto rules = resample_rules(false, config_.upstream_compatible);
  const int64_t first = channel < 0 ? 0 : channel;
  const int64_t last = channel < 0 ? image.format().channels : channel + 1;
  const auto plane = static_cast<size_t>(p * p);
  std::vector<float> scale;
  std::vector<float> shift;
  for (int64_t c = first; c < last; ++c) {
    scale.push_back(scale_of(scaling, c));
    shift.push_back(shift_of(scaling, c));
  }
  if (image.format().type == ScalarType::kUint8) {
    const auto take = [&](int64_t leaf, std::span<const float> token) {
      for (int64_t c = first; c < last; ++c) {
        sink(c, leaf, token.subspan(static_cast<size_t>(c - first) * plane, plane));
      }
    };
    LeafSweep<uint8_t> walk(tree, p, rules, scale, shift, take);
    sweep_bytes(image, channel, config_, options.band_bytes, walk);
    return;
  }
  std::deque<LeafSweep<float>> walks;
  for (int64_t c = first; c < last; ++c) {
    const auto at = static_cast<size_t>(c - first);
    walks.emplace_back(
        tree, p, rules, std::vector<float>{scale[at]}, std::vector<float>{shift[at]},
        [&sink, c](int64_t leaf, std::span<const float> token) { sink(c, leaf, token); });
  }
  sweep_floats(image, first, options.band_bytes, walks);
}

void AdaptivePatcher::unpatch(const TokenReader& tokens, int64_t channels,
                              const PatchSequence& sequence, const OutOfCoreOptions& options,
                              const MapRowSink& rows) const {
  const auto num_trees = static_cast<int64_t>(sequence.trees.size());
  FOVEA_CHECK(num_trees == 1 || num_trees == channels, "{} channels along {} trees", channels,
              num_trees);
  FOVEA_CHECK(sequence.dims == 2, "a sequence of {} dimensions; expected an image's",
              sequence.dims);
  const auto rules = resample_rules(false, config_.upstream_compatible);
  std::vector<patching::LeafRows> maps;
  for (int64_t c = 0; c < channels; ++c) {
    maps.emplace_back(
        sequence.trees[static_cast<size_t>(num_trees == 1 ? 0 : c)], sequence.patch_size, rules,
        [&tokens, c](int64_t leaf, std::span<float> token) { tokens(c, leaf, token); });
  }
  const VolumeSize& size = sequence.trees.at(0).size;
  const int64_t row_bytes = size.width * channels * static_cast<int64_t>(sizeof(float));
  const int64_t band = std::clamp<int64_t>(options.band_bytes / row_bytes, 1, size.height);
  std::vector<float> plane(static_cast<size_t>(channels > 1 ? band * size.width : 0));
  std::vector<float> out(static_cast<size_t>(band * size.width * channels));
  for (int64_t y = 0; y < size.height; y += band) {
    const int64_t count = std::min(band, size.height - y);
    const int64_t pixels = count * size.width;
    for (int64_t c = 0; c < channels; ++c) {
      float* target = channels > 1 ? plane.data() : out.data();
      maps[static_cast<size_t>(c)].read(y, count, target);
      if (channels == 1) continue;
      for (int64_t i = 0; i < pixels; ++i) {
        out[static_cast<size_t>(i * channels + c)] = plane[static_cast<size_t>(i)];
      }
    }
    rows(y, count, std::span<const float>(out).first(static_cast<size_t>(pixels * channels)));
  }
}

}  // namespace fovea::data
