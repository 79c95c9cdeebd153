#include "fovea/inference/explain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/core/error.h"

namespace fovea::inference {
namespace {

constexpr int64_t kGap = 2;  // pixels between pictures

int64_t num_patches(const TokenLayout& layout) { return c10::multiply_integers(layout.grid); }

// How much each token counts in the prediction: [B, N], rows summing to 1.
at::Tensor query_weights(const TokenLayout& layout, int64_t batch) {
  const int64_t patches = num_patches(layout);
  auto weights = at::zeros({batch, layout.num_prefix + patches});
  if (layout.pool_probabilities.defined()) {
    const auto pooled = layout.pool_probabilities.to(at::kFloat).mean(1).squeeze(1);  // [B, M]
    FOVEA_CHECK(pooled.dim() == 2 && pooled.size(0) == batch && pooled.size(1) <= weights.size(1),
                "pooling probabilities [{}] for {} tokens; expected [{}, H, 1, M]",
                fmt::join(layout.pool_probabilities.sizes(), ", "), weights.size(1), batch);
    weights.narrow(1, weights.size(1) - pooled.size(1), pooled.size(1)).copy_(pooled);
  } else if (layout.uses_class_token) {
    FOVEA_CHECK(layout.num_prefix > 0, "a class token without a prefix token; expected at least 1");
    weights.select(1, 0).fill_(1);
  } else if (layout.real_patches.defined()) {
    const auto real = layout.real_patches.to(at::kCPU, at::kFloat);  // [B, patches]
    weights.narrow(1, layout.num_prefix, patches).copy_(real / real.sum(1, /*keepdim=*/true));
  } else {
    weights.narrow(1, layout.num_prefix, patches).fill_(1.0 / static_cast<double>(patches));
  }
  return weights;
}

// Key weights of tokens [..., N] -> of patches, as a grid [..., G...].
at::Tensor to_grid(const at::Tensor& tokens, const TokenLayout& layout) {
  const auto patches = tokens.narrow(-1, layout.num_prefix, num_patches(layout));
  return patches.unflatten(-1, layout.grid);
}

void check_probabilities(const at::Tensor& probabilities) {
  FOVEA_CHECK(probabilities.dim() == 4 && probabilities.size(2) == probabilities.size(3),
              "attention probabilities of shape [{}]; expected [B, H, N, N]",
              fmt::join(probabilities.sizes(), ", "));
}

void check_layout(int64_t tokens, const TokenLayout& layout) {
  FOVEA_CHECK(tokens == layout.num_prefix + num_patches(layout),
              "{} tokens for {} prefix tokens and a grid of {}; expected their sum", tokens,
              layout.num_prefix, fmt::join(layout.grid, " x "));
}

at::Tensor rescaled(const at::Tensor& map) {
  const auto low = map.min(), range = map.max() - low;
  // A flat map says nothing: shown as 0.
  return range.item<double>() > 0 ? (map - low) / range : at::zeros(map.sizes());
}

// The linear sRGB primaries of an OKLab colour (Ottosson, 2020), clipped, and gamma-encoded.
// l: [n], a: [n], b: [n] -> [3, n].
at::Tensor srgb_of_oklab(const at::Tensor& l, const at::Tensor& a, const at::Tensor& b) {
  const auto long_cone = at::pow(l + 0.3963377774 * a + 0.2158037573 * b, 3);
  const auto medium_cone = at::pow(l - 0.1055613458 * a - 0.0638541728 * b, 3);
  const auto short_cone = at::pow(l - 0.0894841775 * a - 1.2914855480 * b, 3);
  const auto mix = [&](double from_long, double from_medium, double from_short) {
    return from_long * long_cone + from_medium * medium_cone + from_short * short_cone;
  };
  const auto linear = at::stack({mix(4.0767416621, -3.3077115913, 0.2309699292),
                                 mix(-1.2684380046, 2.6097574011, -0.3413193965),
                                 mix(-0.0041960863, -0.7034186147, 1.7076147010)})
                          .clamp(0, 1);
  return at::where(linear <= 0.0031308, 12.92 * linear,
                   1.055 * at::pow(linear.clamp_min(0.0031308), 1 / 2.4) - 0.055);
}

// The colour map at 256 places: lightness rises evenly while the hue turns from violet over red to
// yellow; chroma is highest in the middle. -> [3, 256].
const at::Tensor& color_table() {
  static const at::Tensor table = [] {
    const auto t = at::arange(256, at::kDouble) / 255;
    const auto hue = (285 + 185 * t) * (std::numbers::pi / 180);
    const auto chroma = 0.19 * at::pow(at::sin(std::numbers::pi * (0.06 + 0.84 * t)), 0.8);
    return srgb_of_oklab(0.10 + 0.86 * t, chroma * at::cos(hue), chroma * at::sin(hue))
        .to(at::kFloat);
  }();
  return table;
}

// [C, H, W] -> grey [1, H, W].
at::Tensor grey(const at::Tensor& image) { return image.mean(0, /*keepdim=*/true); }

// [C, H, W] -> [3, H, W]: channels beyond three are left out, one or two are shown as grey.
at::Tensor as_rgb(const at::Tensor& image) {
  return image.size(0) >= 3 ? image.narrow(0, 0, 3) : grey(image).expand({3, -1, -1});
}

at::Tensor enlarged(const at::Tensor& image, int64_t factor) {
  return image.repeat_interleave(factor, -2).repeat_interleave(factor, -1);
}

// The middle slice across each of the last three sides.
std::vector<at::Tensor> middle_slices(const at::Tensor& volume) {
  std::vector<at::Tensor> slices;
  for (int64_t side = -3; side < 0; ++side) {
    slices.push_back(volume.select(side, volume.size(side) / 2));
  }
  return slices;
}

// What is drawn of an image or volume: one view, or one of each middle slice.
class Views {
 public:
  Views(const at::Tensor& image, int64_t min_side) : sides_(image.sizes().slice(1).vec()) {
    FOVEA_CHECK(image.dim() == 3 || image.dim() == 4,
                "an image of shape [{}]; expected [C, H, W] or [C, D, H, W]",
                fmt::join(image.sizes(), ", "));
    const int64_t largest = *std::max_element(sides_.begin(), sides_.end());
    factor_ = std::max<int64_t>(1, (min_side + largest - 1) / largest);
    const auto views = image.dim() == 3 ? std::vector<at::Tensor>{image} : middle_slices(image);
    for (const auto& view : views) views_.push_back(enlarged(view, factor_));
  }

  at::Tensor picture() const {
    std::vector<at::Tensor> pictures;
    for (const auto& view : views_) pictures.push_back(as_rgb(view));
    return in_a_row(pictures);
  }

  // map: [G...] -> [3, H, W].
  at::Tensor with_map(const at::Tensor& map) const {
    if (sides_.size() == 2) return overlay(views_[0], map);
    const auto volume = at::upsample_trilinear3d(map.unsqueeze(0).unsqueeze(0), sides_, false)
                            .squeeze(0)
                            .squeeze(0);  // [D, H, W]
    const auto slices = middle_slices(volume);
    std::vector<at::Tensor> pictures;
    for (size_t i = 0; i < slices.size(); ++i) pictures.push_back(overlay(views_[i], slices[i]));
    return in_a_row(pictures);
  }

 private:
  // Pictures of unequal height stand on a common top edge.
  static at::Tensor in_a_row(const std::vector<at::Tensor>& pictures) {
    int64_t height = 0;
    for (const auto& picture : pictures) height = std::max(height, picture.size(1));
    std::vector<at::Tensor> row;
    for (const auto& picture : pictures) {
      if (!row.empty()) row.push_back(at::ones({3, height, kGap}));
      auto padded = at::ones({3, height, picture.size(2)});
      padded.narrow(1, 0, picture.size(1)).copy_(picture);
      row.push_back(padded);
    }
    return at::cat(row, 2);
  }

  std::vector<int64_t> sides_;
  int64_t factor_ = 1;
  std::vector<at::Tensor> views_;
};

}  // namespace

at::Tensor attention_maps(const at::Tensor& probabilities, const TokenLayout& layout) {
  check_probabilities(probabilities);
  check_layout(probabilities.size(3), layout);
  const auto weights = query_weights(layout, probabilities.size(0));     // [B, N]
  const auto rows = at::matmul(weights.unsqueeze(1).unsqueeze(1),        // [B, 1, 1, N]
                               probabilities.to(at::kCPU, at::kFloat));  // [B, H, 1, N]
  return to_grid(rows.squeeze(2), layout);
}

at::Tensor attention_rollout(const std::vector<at::Tensor>& probabilities) {
  FOVEA_CHECK(!probabilities.empty(),
              "no attention to roll out; expected that of at least 1 block");
  at::Tensor rollout;
  for (const auto& block : probabilities) {
    check_probabilities(block);
    const auto heads = block.to(at::kCPU, at::kFloat).mean(1);  // [B, N, N]
    auto mixed = heads + at::eye(heads.size(1));
    mixed = mixed / mixed.abs().sum(-1, /*keepdim=*/true);  // a difference may be negative
    rollout = rollout.defined() ? at::matmul(mixed, rollout) : mixed;
  }
  return rollout;
}

at::Tensor rollout_map(const at::Tensor& rollout, const TokenLayout& layout) {
  check_layout(rollout.size(2), layout);
  const auto weights = query_weights(layout, rollout.size(0));
  return to_grid(at::matmul(weights.unsqueeze(1), rollout).squeeze(1), layout);
}

at::Tensor color_map(const at::Tensor& values) {
  const auto places = (values.to(at::kFloat).clamp(0, 1) * 255).round().to(at::kLong);
  auto shape = values.sizes().vec();
  shape.insert(shape.begin(), 3);
  return color_table().index_select(1, places.flatten()).reshape(shape);
}

at::Tensor overlay(const at::Tensor& image, const at::Tensor& map) {
  FOVEA_CHECK(image.dim() == 3 && map.dim() == 2,
              "overlay of [{}] on [{}]; expected [G, G] on [C, H, W]", fmt::join(map.sizes(), ", "),
              fmt::join(image.sizes(), ", "));
  const auto scaled = rescaled(map.to(at::kFloat));
  const auto large = at::upsample_bilinear2d(scaled.unsqueeze(0).unsqueeze(0),
                                             image.sizes().slice(1), /*align_corners=*/false)[0];
  const auto strength = 0.3 + 0.45 * large;  // [1, H, W]: what is looked at is coloured most
  return (1 - strength) * grey(image) + strength * color_map(large[0]);
}

at::Tensor picture_grid(const std::vector<at::Tensor>& pictures, int64_t columns) {
  FOVEA_CHECK(!pictures.empty() && columns > 0, "{} pictures in {} columns", pictures.size(),
              columns);
  const int64_t height = pictures[0].size(1), width = pictures[0].size(2);
  const auto count = static_cast<int64_t>(pictures.size());
  columns = std::min(columns, count);
  const int64_t rows = (count + columns - 1) / columns;
  auto grid = at::ones({3, rows * (height + kGap) - kGap, columns * (width + kGap) - kGap});
  for (int64_t i = 0; i < count; ++i) {
    grid.narrow(1, i / columns * (height + kGap), height)
        .narrow(2, i % columns * (width + kGap), width)
        .copy_(pictures[static_cast<size_t>(i)]);
  }
  return grid;
}

data::Image to_image(const at::Tensor& picture) {
  const auto bytes = (picture.clamp(0, 1) * 255)
                         .round()
                         .to(at::kByte)
                         .permute({1, 2, 0})  // [H, W, 3]
                         .contiguous();
  const auto* first = bytes.const_data_ptr<uint8_t>();
  return {.height = bytes.size(0),
          .width = bytes.size(1),
          .channels = bytes.size(2),
          .pixels = {first, first + bytes.numel()}};
}

ExplainPictures explain(const at::Tensor& image, const std::vector<at::Tensor>& probabilities,
                        const TokenLayout& layout, int64_t min_side) {
  const auto in_image = [&](const at::Tensor& map) {
    return layout.to_image ? layout.to_image(map) : map;
  };
  const auto rollout = in_image(rollout_map(attention_rollout(probabilities), layout)[0]);
  FOVEA_CHECK(image.dim() == rollout.dim() + 1,
              "an image of {} dims for a grid of {}; expected channels and the grid's sides",
              image.dim(), rollout.dim());
  const Views views(image.to(at::kCPU, at::kFloat).clamp(0, 1), min_side);
  const auto columns_for = [](size_t count) {
    return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  };
  std::vector<at::Tensor> blocks, heads;
  for (const auto& block : probabilities) {
    blocks.push_back(views.with_map(in_image(attention_maps(block, layout)[0].mean(0))));
  }
  for (const auto& head : attention_maps(probabilities.back(), layout)[0].unbind(0)) {
    heads.push_back(views.with_map(in_image(head)));
  }
  return {.rollout = picture_grid({views.picture(), views.with_map(rollout)}, 2),
          .blocks = picture_grid(blocks, columns_for(blocks.size())),
          .heads = picture_grid(heads, columns_for(heads.size()))};
}

}  // namespace fovea::inference
