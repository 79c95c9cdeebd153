// N samples, C channels.
#include "fovea/train/diffusion/sample_grid.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

constexpr int64_t kSampleGap = 2;   // pixels between samples
constexpr int64_t kShownSide = 56;  // smaller samples are enlarged to about this

// [C, H, W] or [C, D, H, W] -> [H, W, 1 or 3] bytes.
at::Tensor sample_bytes(const at::Tensor& sample, double value_range) {
  FOVEA_CHECK(sample.dim() == 3 || sample.dim() == 4,
              "a sample of {} dims; expected [C, H, W] or [C, D, H, W]", sample.dim());
  auto plane = sample.dim() == 4 ? sample.select(1, sample.size(1) / 2) : sample;
  if (plane.size(0) != 3) plane = plane.narrow(0, 0, 1);
  return ((plane.to(at::kCPU, at::kFloat) / value_range + 1) * 127.5)
      .round()
      .clamp(0, 255)
      .to(at::kByte)
      .permute({1, 2, 0});
}

data::Image image_of(const at::Tensor& bytes) {
  const auto dense = bytes.contiguous();
  const auto* begin = dense.const_data_ptr<uint8_t>();
  return {dense.size(0), dense.size(1), dense.size(2), {begin, begin + dense.numel()}};
}

}  // namespace

data::Image sample_image(const at::Tensor& sample, double value_range) {
  return image_of(sample_bytes(sample, value_range));
}

data::Image sample_grid(const at::Tensor& samples, int64_t columns, double value_range) {
  FOVEA_CHECK(samples.size(0) > 0 && columns > 0, "a grid of {} samples in {} columns",
              samples.size(0), columns);
  const auto first = sample_bytes(samples[0], value_range);
  const auto zoom = std::max<int64_t>(1, kShownSide / std::max(first.size(0), first.size(1)));
  const auto height = first.size(0) * zoom, width = first.size(1) * zoom;
  const auto shown = std::min(columns, samples.size(0));
  const auto rows = (samples.size(0) + columns - 1) / columns;
  const auto grid = at::zeros({rows * (height + kSampleGap) - kSampleGap,
                               shown * (width + kSampleGap) - kSampleGap, first.size(2)},
                              at::kByte);
  for (int64_t i = 0; i < samples.size(0); ++i) {
    const auto bytes =
        sample_bytes(samples[i], value_range).repeat_interleave(zoom, 0).repeat_interleave(zoom, 1);
    grid.narrow(0, i / columns * (height + kSampleGap), height)
        .narrow(1, i % columns * (width + kSampleGap), width)
        .copy_(bytes);
  }
  return image_of(grid);
}

}  // namespace fovea::train
