// AdaptivePatcher on images that are too large for memory.
#include <algorithm>
#include <deque>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/image_rows.h"
#include "fovea/data/adaptive/leaf_sweep.h"

namespace fovea::data {
namespace {

using patching::LeafSweep;

double in_gib(int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); }

void check_detail_bytes(const RegionSource& image, int64_t channels,
                        const AdaptivePatchingConfig& config, bool is_noise, int64_t most) {
  const int64_t bytes = detail_bytes(image.format().size, channels, config, is_noise);
  if (bytes <= most) return;
  fail<ConfigError>(
      "{}: the detail of {}x{} pixels (criterion={}, min_leaf={}) takes {:.2f} GiB; expected at "
      "most {:.2f}; allow more, or choose another criterion or a larger min_leaf (edges take two "
      "bits a pixel, the others four bytes a smallest leaf)",
      image.name(), image.format().size.height, image.format().size.width, config.criterion,
      config.min_leaf, in_gib(bytes), in_gib(most));
}

// A walk down an image of bytes that cuts its patches, all channels at once.
void walk_bytes(const RegionSource& image, int64_t channel, int64_t band_bytes,
                LeafSweep<uint8_t>& sweep) {
  patching::ChannelRows<uint8_t> rows(image, channel, band_bytes);
  for (int64_t y = 0; y < image.format().size.height; ++y) sweep.add_row(y, rows.row(y));
}

// The same of any other kind, channel by channel as volume_to_tokens: sums of channels that lie
// between each other may round otherwise.
void walk_floats(const RegionSource& image, int64_t channel, int64_t band_bytes,
                 std::deque<LeafSweep<float>>& sweeps) {
  patching::ChannelRows<float> rows(image, channel, band_bytes);
  std::vector<float> plane(static_cast<size_t>(image.format().size.width));
  for (int64_t y = 0; y < image.format().size.height; ++y) {
    const float* row = rows.row(y);
    for (auto& sweep : sweeps) {
      for (size_t x = 0; x < plane.size(); ++x) plane[x] = row[x * sweeps.size()];
      sweep.add_row(y, plane.data());
      ++row;
    }
  }
}

// Detail of one channel, or of all, wherever the rows are kept.
void build_detail(const RegionSource& image, int64_t channel, const AdaptivePatchingConfig& config,
                  const DetailDraw& draw, RandomStream* random, int64_t band_bytes,
                  DetailMap& detail) {
  const auto& [height, width] = image.format().size;
  if (image.format().type == ScalarType::kUint8) {
    patching::ChannelRows<uint8_t> rows(image, channel, band_bytes);
    const patching::ImageRows bytes = {height, width, rows.channels(),
                                       [&rows](int64_t y) { return rows.row(y); }};
    return detail.build(bytes, config, draw, random);
  }
  patching::ChannelRows<float> rows(image, channel, band_bytes);
  const patching::FieldRows field = {height, width, rows.channels(), [&rows](int64_t y, int64_t c) {
                                       return patching::FieldRow{rows.row(y) + c, rows.channels()};
                                     }};
  detail.build(field, config, draw, random);
}

TokenSink into(std::span<float> tokens, const AdaptivePatchingConfig& config) {
  return [tokens, length = config.fixed_length](int64_t channel, int64_t leaf,
                                                std::span<const float> token) {
    const auto at = static_cast<size_t>(channel * length + leaf) * token.size();
    std::copy(token.begin(), token.end(), tokens.subspan(at, token.size()).begin());
  };
}

}  // namespace

void AdaptivePatcher::patch(const RegionSource& image, RandomStream* random,
                            const ChannelScaling& scaling, const TokenSink& sink,
                            const OutOfCoreOptions& options, PatchSequence& out) const {
  start(image.format().channels, 2, /*has_tokens=*/false, out);
  patch(image, random, scaling, sink, options, out.spans());
}

void AdaptivePatcher::patch(const RegionSource& image, RandomStream* random,
                            const ChannelScaling& scaling, const TokenSink& sink,
                            const OutOfCoreOptions& options, const PatchSpans& out) const {
  const RegionFormat& format = image.format();
  check_scaling(scaling, format.channels);
  check_room(format.channels, 2, out);
  const DetailDraw detail = draw(true, random);
  for (size_t t = 0; t < out.trees.size(); ++t) {
    const int64_t channel = out.trees.size() > 1 ? static_cast<int64_t>(t) : -1;
    check_detail_bytes(image, channel < 0 ? format.channels : 1, config_, detail.is_noise,
                       options.max_detail_bytes);
    {
      DetailMap values;
      build_detail(image, channel, config_, detail, random, options.band_bytes, values);
      TreeScratch scratch;
      grow({1, format.size.height, format.size.width}, values, out.trees[t], scratch);
    }  // what the detail took is free before the tokens
    sweep(image, channel, scaling, sink ? sink : into(out.tokens, config_), options, out.trees[t]);
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
  std::vector<float> scale;
  std::vector<float> shift;
  for (int64_t c = first; c < last; ++c) {
    scale.push_back(scale_of(scaling, c));
    shift.push_back(shift_of(scaling, c));
  }
  if (image.format().type == ScalarType::kUint8) {
    const auto plane = static_cast<size_t>(p * p);
    const auto take = [&](int64_t leaf, std::span<const float> token) {
      for (int64_t c = first; c < last; ++c) {
        sink(c, leaf, token.subspan(static_cast<size_t>(c - first) * plane, plane));
      }
    };
    LeafSweep<uint8_t> sweep(tree, p, rules, scale, shift, take);
    return walk_bytes(image, channel, options.band_bytes, sweep);
  }
  std::deque<LeafSweep<float>> sweeps;
  for (int64_t c = first; c < last; ++c) {
    const auto at = static_cast<size_t>(c - first);
    sweeps.emplace_back(
        tree, p, rules, std::vector<float>{scale[at]}, std::vector<float>{shift[at]},
        [&sink, c](int64_t leaf, std::span<const float> token) { sink(c, leaf, token); });
  }
  walk_floats(image, channel, options.band_bytes, sweeps);
}

}  // namespace fovea::data
