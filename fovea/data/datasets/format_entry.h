// A format's line in the table of registry.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/format.h"

namespace fovea::data {

// A config with `transforms` and `channels`, and the function that opens what it names. It may have
// volume_axes(), max_unpacked_bytes and label_offset; the function may take EmptyClasses.
template <class Config, auto kOpen>
class Format final : public ConfigHolder<DatasetFormat, Config, Format<Config, kOpen>> {
 public:
  const std::vector<AnyTransformConfig>& transforms() const override {
    return this->config.transforms;
  }
  std::vector<AnyTransformConfig>& transforms() override { return this->config.transforms; }
  VolumeAxes volume_axes() const override {
    if constexpr (requires(const Config& config) { config.volume_axes(); }) {
      return this->config.volume_axes();
    }
    return VolumeAxes::kUnknown;
  }
  std::optional<int64_t> max_unpacked_bytes() const override {
    if constexpr (requires(const Config& config) { config.max_unpacked_bytes; }) {
      return this->config.max_unpacked_bytes;
    }
    return std::nullopt;
  }
  int64_t label_offset() const override {
    if constexpr (requires(const Config& config) { config.label_offset; }) {
      return this->config.label_offset;
    }
    return 0;
  }
  std::shared_ptr<const Dataset> open(EmptyClasses empty_classes) const override {
    auto dataset = open_all_channels(empty_classes);
    if (this->config.channels.empty()) return dataset;
    return std::make_shared<ChannelsDataset>(std::move(dataset), this->config.channels);
  }

 private:
  std::shared_ptr<const Dataset> open_all_channels(
      [[maybe_unused]] EmptyClasses empty_classes) const {
    if constexpr (std::is_invocable_v<decltype(kOpen), const Config&, EmptyClasses>) {
      return kOpen(this->config, empty_classes);
    } else {
      return kOpen(this->config);
    }
  }
};

template <class Config, auto kOpen>
ConfigAlternativeEntry dataset_format() {
  return alternative<Format<Config, kOpen>>();
}

}  // namespace fovea::data
