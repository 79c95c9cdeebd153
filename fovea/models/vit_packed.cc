// The ViT on images of mixed sizes, packed into one sequence (Dehghani et al. 2023, NaViT). All
// that works on single tokens sees one long row; attention sees each image by itself, and so does
// whatever is drawn: an image gives what it gives alone.
//
// B images, T tokens of all, N of one, C channels, P patch side, D embed_dim.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/models/vit.h"
#include "fovea/nn/forward_context.h"

namespace fovea::models {
namespace {

// [B + 1]: where each image's tokens begin, and their end.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (const auto length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

// The same rows of the global batch, packed as `lengths` say, for what is drawn in training.
std::optional<nn::StepScope> packed_step(const std::vector<int64_t>& lengths) {
  auto step = nn::forward_context().step;
  if (!step) return std::nullopt;
  step->offsets = offsets_of(lengths);
  return std::optional<nn::StepScope>(std::in_place, *std::move(step));
}

struct PaddedTokens {
  at::Tensor tokens;  // [B, n, D]
  at::Tensor mask;    // [B, n] bool: tokens of the image; undefined: all are
};

// The first n tokens of each image, or all of it where it has fewer; what is missing holds its
// first one. tokens: [1, T, D].
PaddedTokens padded(const at::Tensor& tokens, const std::vector<int64_t>& lengths, int64_t n) {
  const auto options = at::TensorOptions().dtype(at::kLong);
  const auto starts = offsets_of(lengths);
  const auto num_images = static_cast<int64_t>(lengths.size());
  const auto first = at::tensor(starts, options).narrow(0, 0, num_images).unsqueeze(1);  // [B, 1]
  const auto place = at::arange(n, options).unsqueeze(0);                                // [1, n]
  const auto is_own = place < at::tensor(lengths, options).unsqueeze(1);                 // [B, n]
  const auto index = (first + place * is_own).flatten().to(tokens.device());
  PaddedTokens result;
  result.tokens = tokens.squeeze(0).index_select(0, index).view({num_images, n, -1});
  const bool is_full =
      std::all_of(lengths.begin(), lengths.end(), [n](int64_t length) { return length >= n; });
  if (!is_full) result.mask = is_own.to(tokens.device());
  return result;
}

}  // namespace

void Vit::check_packed(const PackedImages& images) const {
  const auto lengths = images.lengths();
  const auto total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto values = config_.in_chans * config_.patch_size[0] * config_.patch_size[0];
  const auto sizes = images.patches.sizes();
  const bool is_whole = std::all_of(images.grids.begin(), images.grids.end(),
                                    [](const auto& grid) { return grid[0] > 0 && grid[1] > 0; });
  FOVEA_CHECK(!lengths.empty() && is_whole && sizes == at::IntArrayRef({1, total, values}),
              "{} packed images in patches of shape [{}]; expected [1, {}, {}]: the patches of "
              "all grids, none of them empty, with {} channels of {} x {} values",
              lengths.size(), fmt::join(sizes, ", "), total, values, config_.in_chans,
              config_.patch_size[0], config_.patch_size[0]);
}

// -> [1, T, D], without prefix tokens.
at::Tensor Vit::embed_packed(const PackedImages& images) const {
  check_packed(images);
  const auto x = patch_embed_->forward_patches(images.patches);
  std::map<std::array<int64_t, 2>, at::Tensor> of_grid;
  std::vector<at::Tensor> positions;
  for (const auto& grid : images.grids) {
    auto& position = of_grid[grid];
    if (!position.defined()) position = position_of(grid);
    if (!position.defined()) return x;
    positions.push_back(position);
  }
  return x + at::cat(positions, 1).to(x.scalar_type());
}

// Class and register tokens in front of each image. lengths: patches of each; becomes tokens.
at::Tensor Vit::add_prefixes(const at::Tensor& patches, std::vector<int64_t>& lengths) const {
  const auto prefix = prefix_rows(patches.scalar_type());
  if (!prefix.defined()) return patches;
  std::vector<at::Tensor> parts;
  for (const auto& image : patches.split_with_sizes(lengths, 1)) {
    parts.push_back(prefix);
    parts.push_back(image);
  }
  for (auto& length : lengths) length += prefix.size(1);
  return at::cat(parts, 1);
}

// drop_patches in a row: of each image those that stay when it is alone.
at::Tensor Vit::drop_packed_patches(const at::Tensor& tokens, std::vector<int64_t>& lengths) const {
  if (!is_training() || config_.patch_drop_rate == 0.0) return tokens;
  const auto num_prefix = config_.num_prefix_tokens();
  const auto starts = offsets_of(lengths);
  auto key = drop_key("patch_drop");
  key.host_stamp = at::Tensor();  // of all rows
  const auto rows = key.rows;
  FOVEA_CHECK(rows.numel() == static_cast<int64_t>(lengths.size()),
              "{} rows named for {} packed images", rows.numel(), lengths.size());
  std::vector<at::Tensor> kept;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const auto num_patches = lengths[b] - num_prefix;
    key.rows = rows.narrow(0, static_cast<int64_t>(b), 1);
    const auto keep = kernels::patch_keep_indices(key, num_patches, num_kept(num_patches),
                                                  /*ordered=*/false);  // [1, kept]
    kept.push_back(at::arange(starts[b], starts[b] + num_prefix, keep.options()));
    kept.push_back(keep.squeeze(0) + (starts[b] + num_prefix));
    lengths[b] = num_prefix + keep.size(1);
  }
  return tokens.index_select(1, at::cat(kept).to(tokens.device()));
}

// -> [1, T, D] after the final norm; lengths: tokens of each image, prefix included.
at::Tensor Vit::encode_packed(const PackedImages& images, std::vector<int64_t>& lengths) const {
  lengths = images.lengths();
  auto x = add_prefixes(embed_packed(images), lengths);
  {
    const auto step = packed_step(lengths);
    x = drop_positions(x);
  }
  x = drop_packed_patches(x, lengths);
  const auto step = packed_step(lengths);
  return encode(x, {}, nullptr, {}, at::tensor(offsets_of(lengths), at::kLong));
}

// -> [B, num_classes], or [B, F] with pre_logits.
at::Tensor Vit::head_of_packed(const PackedImages& images, bool pre_logits) const {
  std::vector<int64_t> lengths;
  const auto tokens = encode_packed(images, lengths);
  const bool sees_prefix_alone = config_.global_pool == "token";
  const auto seen = sees_prefix_alone ? config_.num_prefix_tokens()
                                      : *std::max_element(lengths.begin(), lengths.end());
  const auto [rows, mask] = padded(tokens, lengths, seen);
  return forward_head(rows, pre_logits, mask);
}

}  // namespace fovea::models
