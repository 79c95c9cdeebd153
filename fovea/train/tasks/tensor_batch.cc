#include "fovea/train/tasks/tensor_batch.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/elementwise/images.h"
#include "fovea/kernels/linear/copy_beside.h"
#include "fovea/train/tasks/patch_boxes.h"

namespace fovea::train {
namespace {

// [end - begin, ...] over rows of a buffer; no copy.
template <class T>
at::Tensor rows_of(std::vector<T>& values, std::vector<int64_t> shape, int64_t begin, int64_t end,
                   c10::ScalarType dtype) {
  const int64_t row = static_cast<int64_t>(values.size()) / std::max<int64_t>(1, shape[0]);
  shape[0] = end - begin;
  return at::from_blob(values.data() + begin * row, shape, at::TensorOptions().dtype(dtype));
}

// From pinned memory a GPU copies while the host goes on; from other memory the host may have to
// wait for what the GPU still has to do.
at::Tensor pinned_for(const ComputeOptions& compute, const at::Tensor& rows) {
  return compute.device.is_cuda() ? rows.pin_memory() : rows;
}

// On the compute device, in `dtype`; cast there.
at::Tensor sent(const at::Tensor& rows, const ComputeOptions& compute, c10::ScalarType dtype) {
  if (!compute.device.is_cuda()) return rows.to(compute.device, dtype);
  return kernels::copy_beside(rows, compute.device).to(dtype);
}

// As models::real_patches has it: a sample without any leaf counts as one without padding.
// padding: [B, T, L] bytes on the CPU.
bool has_padding(const at::Tensor& padding) {
  const auto* is_none = padding.const_data_ptr<uint8_t>();
  const auto trees = padding.size(1), leaves = padding.size(2);
  for (int64_t b = 0; b < padding.size(0); ++b, is_none += trees * leaves) {
    int64_t empty = 0;  // places
    for (int64_t place = 0; place < leaves; ++place) {
      bool is_empty = true;
      for (int64_t tree = 0; tree < trees; ++tree) is_empty &= is_none[tree * leaves + place] != 0;
      empty += is_empty ? 1 : 0;
    }
    if (empty > 0 && empty < leaves) return true;
  }
  return false;
}

models::PatchInput patches_of(data::AdaptivePatches& patches, int64_t rows, int64_t begin,
                              int64_t end, const ComputeOptions& compute) {
  const auto trees = patches.num_trees, leaves = patches.fixed_length;
  const auto floats = [&](std::vector<float>& values, const std::vector<int64_t>& shape,
                          c10::ScalarType dtype) {
    return sent(rows_of(values, shape, begin, end, at::kFloat), compute, dtype);
  };
  const auto padding = rows_of(patches.padding, {rows, trees, leaves}, begin, end, at::kByte);
  return {.tokens = floats(patches.tokens, {rows, patches.channels, leaves, patches.token_size()},
                           compute.dtype),
          .sizes = floats(patches.sizes, {rows, trees, leaves}, at::kFloat),
          .centers = floats(patches.centers, {rows, trees, leaves, patches.dims}, at::kFloat),
          .padding = sent(padding, compute, at::kBool),
          .has_padding = has_padding(padding)};
}

// Bytes with what is made of them, still on the CPU: those of some rows, and behind them those of
// partners that are not among these.
struct RowsOfBytes {
  at::Tensor bytes;           // [b + partners, C, H, W]
  kernels::ImageMixes mixes;  // undefined tensors: nothing is mixed
};

RowsOfBytes bytes_of_rows(data::Batch& batch, int64_t begin, int64_t end) {
  const auto own = rows_of(batch.bytes, batch.image_shape, begin, end, at::kByte);
  const auto& mixes = batch.byte_steps.mixups;
  const auto is_mixed = [](const data::ByteMixup& mix) { return mix.is_mixed(); };
  if (mixes.empty() || std::none_of(mixes.begin() + begin, mixes.begin() + end, is_mixed)) {
    return {own, {}};
  }
  std::vector<at::Tensor> parts = {own};
  std::vector<int64_t> table;  // [b + partners, 6]
  std::vector<float> lams;
  int64_t count = end - begin;
  for (int64_t row = begin; row < end; ++row) {
    const auto& mix = mixes[static_cast<size_t>(row)];
    int64_t partner = mix.is_mixed() ? mix.partner - begin : row - begin;
    if (partner < 0 || partner >= end - begin) {
      parts.push_back(
          rows_of(batch.bytes, batch.image_shape, mix.partner, mix.partner + 1, at::kByte));
      partner = count++;
    }
    table.insert(table.end(), {0, partner, mix.top, mix.left, mix.height, mix.width});
    lams.push_back(mix.lam);
  }
  for (int64_t row = end - begin; row < count; ++row) {
    table.insert(table.end(), {0, row, 0, 0, 0, 0});  // as it is, to be left out
    lams.push_back(1);
  }
  return {at::cat(parts),
          {at::tensor(table, at::kLong).view({count, kernels::kImageMixColumns}),
           at::tensor(lams, at::kFloat)}};
}

// Rows [begin, end) as the model sees them, made by the device.
at::Tensor images_of_bytes(data::Batch& batch, int64_t begin, int64_t end,
                           const ComputeOptions& compute) {
  const auto there = [&](const at::Tensor& x) {
    return x.defined() ? sent(x, compute, x.scalar_type()) : x;
  };
  const auto of_channels = [&](std::vector<float>& values) {
    const auto channels = static_cast<int64_t>(values.size());
    return there(rows_of(values, {channels}, 0, channels, at::kFloat));  // [C]
  };
  const auto [bytes, mixes] = bytes_of_rows(batch, begin, end);
  return kernels::normalize_images(there(bytes), of_channels(batch.byte_steps.mean),
                                   of_channels(batch.byte_steps.std),
                                   {there(mixes.table), there(mixes.lam)}, compute.dtype)
      .narrow(0, 0, end - begin);
}

// No room between the images is left: the patches of one follow those of the one before.
models::PackedImages packed_of(data::ImagePatches& patches, int64_t rows, int64_t begin,
                               int64_t end, const ComputeOptions& compute) {
  const auto width = static_cast<int64_t>(patches.values.size()) /
                     std::max<int64_t>(1, rows * patches.max_patches);
  const auto values = rows_of(patches.values, {rows, patches.max_patches, width}, begin, end,
                              at::kFloat);  // [b, M, C * P * P]
  models::PackedImages packed;
  std::vector<at::Tensor> images;
  for (int64_t row = begin; row < end; ++row) {
    const auto height = patches.grids[static_cast<size_t>(2 * row)];
    const auto columns = patches.grids[static_cast<size_t>(2 * row + 1)];
    packed.grids.push_back({height, columns});
    images.push_back(values[row - begin].narrow(0, 0, height * columns));
  }
  packed.patches = sent(at::cat(images).unsqueeze(0), compute, compute.dtype);
  return packed;
}

}  // namespace

c10::ScalarType dtype_from_name(const std::string& name, c10::Device device) {
  if (name == "auto") {
    return kernels::has_bfloat16_products(device) ? c10::ScalarType::BFloat16
                                                  : c10::ScalarType::Float;
  }
  if (name == "float32") return c10::ScalarType::Float;
  if (name == "bfloat16") return c10::ScalarType::BFloat16;
  if (name == "float16") return c10::ScalarType::Half;
  if (name == "int8") {
    fail<ConfigError>(
        "device.dtype: found int8, with which a trained model answers (predict, eval, serve, bench "
        "model --mode infer); expected float32, bfloat16, float16 or auto: set one of these");
  }
  fail<ConfigError>("dtype '{}' is unknown; expected float32, bfloat16, float16 or auto", name);
}

const char* dtype_name(c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Half) return "float16";
  return dtype == c10::ScalarType::BFloat16 ? "bfloat16" : "float32";
}

PatchedImages images_for(const models::Model& model, const Task& task) {
  const bool are_wanted =
      !model.takes_patches() || model.wants_images_of_patches() || task.wants_images_of_patches();
  return are_wanted ? PatchedImages::kOnDevice : PatchedImages::kWithLoader;
}

at::Tensor images_on_device(const TensorBatch& batch) {
  const auto& tokens = batch.patches.tokens;
  return tokens.defined() ? batch.images.to(tokens.options()) : batch.images;
}

at::Tensor images_on_host(const TensorBatch& batch) {
  const auto& tokens = batch.patches.tokens;
  const auto images = batch.images.to(at::kCPU);
  return tokens.defined() ? images.to(tokens.scalar_type()) : images;
}

TensorBatch to_tensors(data::Batch& batch, int64_t begin, int64_t end,
                       const ComputeOptions& compute, PatchedImages patched_images) {
  FOVEA_CHECK(0 <= begin && begin < end && end <= batch.size(), "rows {} to {} of a batch of {}",
              begin, end, batch.size());
  const std::vector<int64_t> flat = {batch.size()};
  const bool are_sent = batch.patches.channels == 0 || patched_images == PatchedImages::kOnDevice;
  TensorBatch tensors;
  if (!batch.bytes.empty()) {
    tensors.images = images_of_bytes(batch, begin, end, compute);
  } else {
    tensors.images = rows_of(batch.images, batch.image_shape, begin, end, at::kFloat);
    if (are_sent) tensors.images = sent(tensors.images, compute, compute.dtype);
  }
  tensors.variables = batch.variables;
  if (!batch.targets.empty()) {
    const auto classes = static_cast<int64_t>(batch.targets.size()) / batch.size();
    tensors.labels = sent(rows_of(batch.targets, {batch.size(), classes}, begin, end, at::kFloat),
                          compute, at::kFloat);
  } else if (!batch.labels.empty()) {
    tensors.host_labels = rows_of(batch.labels, flat, begin, end, at::kLong);
    tensors.labels = sent(tensors.host_labels, compute, at::kLong);
  }
  if (batch.image_patches.patch_size > 0) {
    tensors.packed = packed_of(batch.image_patches, batch.size(), begin, end, compute);
  }
  if (auto& patches = batch.patches; patches.channels > 0) {
    tensors.patches = patches_of(patches, batch.size(), begin, end, compute);
    tensors.trees = std::span(patches.trees)
                        .subspan(static_cast<size_t>(begin * patches.num_trees),
                                 static_cast<size_t>((end - begin) * patches.num_trees));
    if (patches.of_values) tensors.patching = &*patches.of_values;
    if (are_sent) tensors.patches.images = tensors.images;
    tensors.patches.boxes = boxes_of(tensors.trees, {.num_trees = patches.num_trees,
                                                     .fixed_length = patches.fixed_length,
                                                     .dims = patches.dims});
    if (!patches.labels.empty()) {
      tensors.host_patch_labels =
          rows_of(patches.labels, {batch.size(), patches.fixed_length, patches.token_size()}, begin,
                  end, at::kInt);
      tensors.patch_labels = sent(tensors.host_patch_labels, compute, at::kLong);
    }
  }
  if (!batch.masks.empty()) {
    auto shape = batch.image_shape;
    shape.erase(shape.begin() + 1);
    tensors.host_masks = rows_of(batch.masks, shape, begin, end, at::kInt);
    tensors.masks = are_sent ? sent(tensors.host_masks, compute, at::kLong) : tensors.host_masks;
  }
  const auto counts = [](float weight) { return weight == 1.0f; };
  if (!std::all_of(batch.weights.begin() + begin, batch.weights.begin() + end, counts)) {
    tensors.weights =
        sent(rows_of(batch.weights, flat, begin, end, at::kFloat), compute, at::kFloat);
  }
  tensors.rows = pinned_for(compute, rows_of(batch.rows, flat, begin, end, at::kLong));
  tensors.indices = rows_of(batch.indices, flat, begin, end, at::kLong);
  return tensors;
}

}  // namespace fovea::train
