// C channels, H and W sides of a panel.
#include "fovea/train/evaluate/reconstruction_picture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/pictures/pictures.h"

namespace fovea::train {
namespace {

constexpr int64_t kPanelSide = 112;     // small images are drawn at least this large ...
constexpr int64_t kMaxPanelSide = 256;  // ... and large ones at most that large
constexpr int64_t kGap = 4;

// The channels and the slice that are shown. -> [H, W, 1 or 3] float32, contiguous.
at::Tensor shown_part(const at::Tensor& image) {
  auto x = image.detach().to(at::kCPU, at::kFloat);
  FOVEA_CHECK(x.dim() == 3 || x.dim() == 4, "a picture of a tensor of {} dims; expected 3 or 4",
              x.dim());
  if (x.dim() == 4) x = x.select(1, x.size(1) / 2);
  return x.narrow(0, 0, x.size(0) == 3 ? 3 : 1).permute({1, 2, 0}).contiguous();
}

struct Levels {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();

  uint8_t gray(float value) const {
    if (!std::isfinite(value)) return 128;
    if (high <= low) return 0;
    return static_cast<uint8_t>(
        std::lround(255.0f * std::clamp((value - low) / (high - low), 0.0f, 1.0f)));
  }
};

Levels levels_of(const at::Tensor& part) {
  Levels levels;
  const auto* values = part.const_data_ptr<float>();
  for (int64_t i = 0; i < part.numel(); ++i) {
    if (!std::isfinite(values[i])) continue;
    levels.low = std::min(levels.low, values[i]);
    levels.high = std::max(levels.high, values[i]);
  }
  return levels;
}

data::Image panel_of(const at::Tensor& part, const Levels& levels) {
  const auto height = part.size(0), width = part.size(1), channels = part.size(2);
  const auto zoom =
      std::max<int64_t>(1, (kPanelSide + std::max(height, width) - 1) / std::max(height, width));
  data::Image panel{height * zoom, width * zoom, channels, {}};
  panel.pixels.reserve(static_cast<size_t>(panel.height * panel.width * channels));
  const auto* values = part.const_data_ptr<float>();
  for (int64_t y = 0; y < panel.height; ++y) {
    for (int64_t x = 0; x < panel.width; ++x) {
      const auto* pixel = values + ((y / zoom) * width + x / zoom) * channels;
      for (int64_t c = 0; c < channels; ++c) panel.pixels.push_back(levels.gray(pixel[c]));
    }
  }
  return data::at_most(std::move(panel), kMaxPanelSide);
}

}  // namespace

data::Image side_by_side(const std::vector<at::Tensor>& images) {
  FOVEA_CHECK(!images.empty(), "a picture of no images; expected at least one");
  std::vector<data::Image> panels;
  Levels levels;
  for (const auto& image : images) {
    const auto part = shown_part(image);
    if (panels.empty()) levels = levels_of(part);
    panels.push_back(panel_of(part, levels));
    FOVEA_CHECK(panels.back().channels == panels.front().channels,
                "images of {} and {} channels side by side; expected equal ones",
                panels.front().channels, panels.back().channels);
  }
  data::Image picture{0, -kGap, panels.front().channels, {}};
  for (const auto& panel : panels) {
    picture.height = std::max(picture.height, panel.height);
    picture.width += panel.width + kGap;
  }
  const auto channels = picture.channels;
  picture.pixels.assign(static_cast<size_t>(picture.height * picture.width * channels), 255);
  int64_t left = 0;
  for (const auto& panel : panels) {
    for (int64_t y = 0; y < panel.height; ++y) {
      std::copy_n(panel.pixels.begin() + y * panel.width * channels, panel.width * channels,
                  picture.pixels.begin() + (y * picture.width + left) * channels);
    }
    left += panel.width + kGap;
  }
  return picture;
}

}  // namespace fovea::train
