#include "fovea/serve/blank_input.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "fovea/data/dataset.h"

namespace fovea::serve {
namespace {

// One sample, whose values rise from 0 to 255 again and again: what has no detail at all is cut
// into no patches.
class RampSample : public data::Dataset {
 public:
  RampSample(std::vector<int64_t> sides, bool is_volume)
      : sides_(std::move(sides)), is_volume_(is_volume) {}

  int64_t size() const override { return 1; }
  data::SampleForm form() const override {
    return is_volume_ ? data::SampleForm::kVolume : data::SampleForm::kImage;
  }
  void read(int64_t /*index*/, data::Sample& sample) const override {
    const auto size = size_of(0);
    const auto count = static_cast<size_t>(size.voxels() * sides_[0]);
    if (is_volume_) {
      auto& volume = sample.become<data::Volume>();
      volume = {.channels = sides_[0], .size = size, .spacing = {1, 1, 1}, .values = {}};
      for (size_t i = 0; i < count; ++i) volume.values.push_back(static_cast<float>(i % 256));
    } else {
      auto& image = sample.become<data::Image>();
      image = {.height = size.height, .width = size.width, .channels = sides_[0], .pixels = {}};
      for (size_t i = 0; i < count; ++i) image.pixels.push_back(static_cast<uint8_t>(i));
    }
  }
  const std::vector<std::string>& class_names() const override { return no_names_; }
  int64_t num_classes() const override { return 0; }
  data::VolumeSize size_of(int64_t /*index*/) const override {
    const auto rank = sides_.size();
    return {.depth = rank > 3 ? sides_[rank - 3] : 1,
            .height = sides_[rank - 2],
            .width = sides_[rank - 1]};
  }
  int64_t channels_of(int64_t /*index*/) const override { return sides_[0]; }
  std::string describe(int64_t /*index*/) const override { return "a blank input"; }

 private:
  const std::vector<int64_t> sides_;
  const bool is_volume_;
  const std::vector<std::string> no_names_;
};

// No side shorter than that of the tiles that the run cuts.
void hold_a_tile(std::vector<int64_t>& sides, const train::Inference& model) {
  if (!model.config || !model.config->data.tiling) return;
  const auto& tile = model.config->data.tiling->tile_size;
  const size_t count = std::min(sides.size() - 1, tile.size());
  for (size_t i = 1; i <= count; ++i) {
    auto& side = sides[sides.size() - i];
    side = std::max(side, tile[tile.size() - i]);
  }
}

}  // namespace

std::vector<int64_t> own_sides(const train::Inference& model) {
  std::vector<int64_t> sides = {model.input.in_chans};
  const auto spec = model.model->input_spec();
  sides.insert(sides.end(), spec.img_size.begin(), spec.img_size.end());
  return sides;
}

BlankInput::BlankInput(const train::Inference& model)
    : sides_(own_sides(model)),
      is_tensor_(!model.model->takes_patches()),
      is_volume_(model.input.spatial_dims == 3 || model.takes_slices()) {
  if (!is_tensor_) hold_a_tile(sides_, model);
}

inference::Input BlankInput::make() const {
  if (is_tensor_) return {at::zeros(sides_)};
  const auto sample = std::make_shared<const RampSample>(sides_, is_volume_);
  return {inference::SampleInput{.samples = sample, .index = 0, .name = sample->describe(0)}};
}

}  // namespace fovea::serve
