// A format's line in the table of registry.cc.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/format.h"

namespace fovea::data {

// A format's config, whose `channels` and `transforms` are keys of every format.
template <class Config>
struct WithSetKeys : Config {
  static constexpr std::string_view kTag = "format";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    std::string_view sample = "an image";
    if constexpr (requires { Config::kSample; }) sample = Config::kSample;
    Config::visit(v, self);
    v.field("channels", self.channels,
            "which channels of each sample are used, in this order, from 0: [0, 1] of a file with "
            "four; the model's in_chans is their number; default: all",
            {.one_is_list = true});
    v.field("transforms", self.transforms, fmt::format("what is done to {}, in order", sample));
  }
};

// A config with `channels` and `transforms`, and the function that opens what it names. It may have
// kSample ("a volume"), volume_axes(), max_unpacked_bytes and label_offset; the function may take
// EmptyClasses.
template <class Config, auto kOpen>
class Format final
    : public ConfigHolder<DatasetFormat, WithSetKeys<Config>, Format<Config, kOpen>> {
 public:
  using Held = Config;
  const std::type_info& type() const override { return typeid(Config); }
  void* value() override { return static_cast<Config*>(&this->config); }

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
