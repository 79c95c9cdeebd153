#include "fovea/inference/predict_large_windows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/large_image/region_windows.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/inference/pass.h"
#include "fovea/models/segmenter.h"
#include "fovea/train/tasks/segmentation.h"

// K classes, F features, W columns of an image; n windows.
namespace fovea::inference {
namespace {

constexpr int64_t kMostBandBytes = int64_t{1280} << 20;  // of what windows overlap in: within 2 GiB

void check_model(const train::Inference& inference, const data::RegionSource& image) {
  const auto& model = *inference.model;
  if (inference.input.spatial_dims != 2 || model.takes_patches() ||
      inference.input.packed_patch_size) {
    fail<ConfigError>(
        "{}: large images go through models of images window by window, but this one takes {}",
        image.name(),
        inference.input.spatial_dims != 2 ? "volumes"
        : model.takes_patches()           ? "adaptive patches and gives no mask of them"
                                          : "images of any size, packed");
  }
}

// Whether a window of the model's size stands for what the transform makes.
bool is_of_size(const data::AnyTransformConfig& transform) {
  return transform.get_if<data::ResizeConfig>() != nullptr ||
         transform.get_if<data::CenterCropConfig>() != nullptr;
}

// The same model, whose transforms are `normalize` alone.
train::Inference for_windows(const train::Inference& inference, const data::RegionSource& image,
                             bool replaces_size) {
  train::Inference plain = inference;
  plain.transform_list.clear();
  for (const auto& transform : inference.transform_list) {
    if (replaces_size && is_of_size(transform)) continue;
    if (transform.get_if<data::NormalizeConfig>() == nullptr) {
      fail<ConfigError>(
          "{}: data.val has a transform that needs the whole image, but large images are seen in "
          "windows; expected {}",
          image.name(),
          replaces_size ? "resize and center_crop, in whose place the windows stand, and normalize"
                        : "normalize alone");
    }
    plain.transform_list.push_back(transform);
  }
  return plain.with_channels(inference.channels);
}

std::vector<int64_t> checked_window(const std::vector<int64_t>& window,
                                    const data::RegionSource& image) {
  const auto& [height, width] = image.format().size;
  if (window.size() == 2 && height >= window[0] && width >= window[1]) return window;
  fail<ConfigError>(
      "{}: {} x {} pixels, fewer than a window of the model, [{}]; give it as an image, not as a "
      "large one",
      image.name(), width, height, fmt::join(window, ", "));
}

data::VolumeSize volume_size(const data::RegionSource& image) {
  return {1, image.format().size.height, image.format().size.width};
}

void tell(const LargeProgress& on_progress, int64_t done, int64_t total) {
  if (on_progress) on_progress(done, total);
}

// Of a slab's rows one at a time: of all of them argmax would take twice the slab.
class ClassRows {
 public:
  ClassRows(data::MaskWriter& mask, int64_t width)
      : mask_(mask), width_(width), classes_(static_cast<size_t>(width)) {}

  // values: [K, rows, W]
  void write(int64_t rows, std::span<const float> values) {
    const auto num_classes = static_cast<int64_t>(values.size()) / (rows * width_);
    const auto slab =
        at::from_blob(const_cast<float*>(values.data()), {num_classes, rows, width_}, at::kFloat);
    for (int64_t y = 0; y < rows; ++y) {
      const auto best = slab.select(1, y).argmax(0);  // [W]
      std::copy_n(best.const_data_ptr<int64_t>(), width_, classes_.begin());
      mask_.write_rows(classes_, 1);
    }
  }

 private:
  data::MaskWriter& mask_;
  int64_t width_;
  std::vector<int32_t> classes_;
};

void check_band(const train::Inference& inference, const data::RegionSource& image,
                const std::vector<int64_t>& window) {
  const int64_t outputs = inference.model->num_classes();
  const int64_t width = image.format().size.width;
  const int64_t bytes = ((outputs + 1) * 8 + outputs * 4) * window[0] * width;
  if (bytes <= kMostBandBytes) return;
  fail<ConfigError>(
      "{}: windows of {} rows with {} classes over {} columns overlap in {} MiB; expected at most "
      "{}: cut the image into parts, or predict a level of half the size",
      image.name(), window[0], outputs, width, bytes >> 20, kMostBandBytes >> 20);
}

// Windows side by side, and what a pass gives of each.
struct WindowGrid {
  data::Tiling tiling;
  int64_t rows, columns;
  at::Tensor values = {};  // [rows * columns, ...]
};

WindowGrid pass_over(const train::Inference& inference, const data::RegionSource& image,
                     const Pass& pass, const LargeProgress& on_progress) {
  check_model(inference, image);
  const auto window = checked_window(inference.model->input_spec().img_size, image);
  const auto plain = for_windows(inference, image, /*replaces_size=*/true);
  WindowGrid grid{train::window_tiling(volume_size(image), window, {.overlap = 0}), 0, 0};
  grid.rows = grid.tiling.axes()[1].count;
  grid.columns = grid.tiling.axes()[2].count;
  const auto windows = std::make_shared<data::RegionWindows>(image, grid.tiling);
  for (int64_t first = 0; first < windows->size(); first += kPassSize) {
    std::vector<int64_t> indices;
    for (int64_t i = first; i < std::min(windows->size(), first + kPassSize); ++i)
      indices.push_back(i);
    auto outcomes = in_passes(windows, indices, plain, pass);
    for (size_t i = 0; i < outcomes.size(); ++i) {
      const auto value = outcomes[i].get();
      if (!grid.values.defined()) {
        grid.values = at::empty({windows->size(), value.size(0)}, at::kFloat);
      }
      grid.values[indices[i]].copy_(value);
    }
    tell(on_progress, indices.back() + 1, windows->size());
  }
  return grid;
}

// The class of its window for each pixel.
void write_classes(const WindowGrid& grid, const at::Tensor& scores, data::MaskWriter& mask) {
  const auto classes = scores.argmax(2);  // [rows, columns]
  const auto size = grid.tiling.sample_size();
  const auto& [depth, down, across] = grid.tiling.axes();
  std::vector<int32_t> row(static_cast<size_t>(size.width));
  for (int64_t r = 0; r < grid.rows; ++r) {
    const auto* of_row = classes.const_data_ptr<int64_t>() + r * grid.columns;
    for (int64_t x = 0; x < size.width; ++x) {
      row[static_cast<size_t>(x)] =
          static_cast<int32_t>(of_row[std::min(x / across.step, grid.columns - 1)]);
    }
    const int64_t last = r + 1 == grid.rows ? size.height : (r + 1) * down.step;
    for (int64_t y = r * down.step; y < last; ++y) mask.write_rows(row, 1);
  }
}

at::Tensor on_grid(const WindowGrid& grid) {
  return grid.values.view({grid.rows, grid.columns, grid.values.size(1)});
}

}  // namespace

void predict_large_masks(const train::Inference& inference, const data::RegionSource& image,
                         data::MaskWriter& mask, const LargeProgress& on_progress) {
  const at::NoGradGuard no_grad;
  check_model(inference, image);
  const auto window = checked_window(models::segmenter_of(*inference.model).window_size(), image);
  check_band(inference, image, window);
  const auto plain = for_windows(inference, image, /*replaces_size=*/false);
  const auto config = sliding_window_of(inference);
  const auto tiling = train::window_tiling(volume_size(image), window, config);
  const auto windows = std::make_shared<data::RegionWindows>(image, tiling);
  ClassRows rows(mask, image.format().size.width);
  const auto predict = [&](int64_t first, int64_t count) {
    const auto batch = plain.prepare(windows, first, count);
    auto logits = forward(plain, batch.tensors);  // [n, K, window]
    tell(on_progress, first + count, tiling.count());
    return logits;
  };
  train::blend_windows(tiling, config, predict,
                       [&](int64_t first, int64_t last, std::span<const float> values) {
                         rows.write(last - first, values);
                       });
}

at::Tensor predict_large_classes(const train::Inference& inference, const data::RegionSource& image,
                                 data::MaskWriter& mask, const LargeProgress& on_progress) {
  const at::NoGradGuard no_grad;
  const auto grid = pass_over(inference, image, scores_of, on_progress);
  auto scores = on_grid(grid);
  write_classes(grid, scores, mask);
  return scores;
}

at::Tensor predict_large_features(const train::Inference& inference,
                                  const data::RegionSource& image,
                                  const LargeProgress& on_progress) {
  const at::NoGradGuard no_grad;
  return on_grid(pass_over(inference, image, pooled_features, on_progress));
}

}  // namespace fovea::inference
