#include "fovea/kernels/elementwise/drop.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/WrapDimMinimal.h>
#include <c10/util/accumulate.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/drop_words.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/host_part.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

// Samples of x, of which key.rows names the rows.
int64_t num_samples(const DropKey& key, const at::Tensor& x) {
  if (key.offsets.empty()) return x.dim() ? x.size(0) : 0;
  FOVEA_CHECK(x.dim() >= 2 && x.size(0) == 1 && x.size(1) == key.offsets.back(),
              "drop: packed samples of {} tokens in a tensor of {} dims; expected [1, {}, ...]",
              key.offsets.back(), x.dim(), key.offsets.back());
  return static_cast<int64_t>(key.offsets.size()) - 1;
}

void check_rows(const DropKey& key, const at::Tensor& x) {
  const auto samples = num_samples(key, x);
  FOVEA_CHECK(
      key.rows.defined() && x.dim() >= 1 && key.rows.size(0) == samples,
      "drop: {} rows named for a batch of {}; expected one row of the global batch for each "
      "sample (see nn::StepScope)",
      key.rows.defined() ? key.rows.numel() : 0, samples);
}

void check_key(const DropKey& key) {
  FOVEA_CHECK(key.rows.defined() && key.rows.dim() == 1 && key.rows.scalar_type() == at::kLong,
              "drop: the rows of the global batch are {}; expected one dim of int64",
              key.rows.defined() ? key.rows.toString() : "not given");
}

const auto& drop_mask_op() {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, int64_t, int64_t, double)>("fovea::drop_mask");
  return op;
}

// The mask where x lives: drawn there if a kernel for that device is loaded, else on the CPU and
// copied; the words are the same. -> [B, elements] of the dtype.
at::Tensor mask_for(const at::Tensor& x, const DropKey& key, int64_t elements, double rate,
                    at::ScalarType dtype) {
  auto here = key;
  const bool is_drawn_there = has_kernel(drop_mask_op(), x.device());
  if (!here.stamp.defined() || here.stamp.device() != x.device() || !is_drawn_there) {
    refuse_recording("drop masks whose rows come from the host one by one");
    here.stamp = drop_stamp(key.step, key.rows, is_drawn_there ? x.device() : at::kCPU);
  }
  return drop_mask(here, elements, rate).to(x.device(), dtype);
}

// whole: [B, ...], or [1, T, ...] with key.offsets -> a mask of this shape, where x lives.
at::Tensor mask_of_elements(const at::Tensor& x, const DropKey& key,
                            const std::vector<int64_t>& whole, double rate) {
  if (key.offsets.empty()) {
    const int64_t elements = c10::multiply_integers(whole) / std::max<int64_t>(1, whole[0]);
    return mask_for(x, key, elements, rate, x.scalar_type()).view(whole);
  }
  std::vector<at::Tensor> masks;
  auto shape = whole;
  for (size_t b = 0; b + 1 < key.offsets.size(); ++b) {
    auto one = key;
    one.rows = key.rows.narrow(0, static_cast<int64_t>(b), 1);
    one.stamp = at::Tensor();
    shape[1] = key.offsets[b + 1] - key.offsets[b];
    masks.push_back(
        mask_for(x, one, c10::multiply_integers(shape), rate, x.scalar_type()).view(shape));
  }
  return at::cat(masks, 1);
}

// [B] -> [T], each sample's value for its tokens.
at::Tensor for_tokens(const at::Tensor& values, at::IntArrayRef offsets) {
  std::vector<at::Tensor> parts;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    parts.push_back(
        values.narrow(0, static_cast<int64_t>(b), 1).expand(offsets[b + 1] - offsets[b]));
  }
  return at::cat(parts);
}

// The key with the step and rows of the step that is taken now.
DropKey at_hand(DropKey key) {
  if (!key.host_stamp.defined()) return key;
  key.step = static_cast<uint32_t>(key.host_stamp.const_data_ptr<int64_t>()[0]);
  key.rows = key.host_stamp.narrow(0, 1, key.host_stamp.size(0) - 1);
  return key;
}

// host: [B, num_keep] int64.
void keep_tokens(const at::Tensor& host, const DropKey& key, int64_t num_tokens, bool ordered) {
  const auto num_keep = host.size(1);
  const auto rows = key.rows.to(at::kCPU).contiguous();
  std::vector<uint32_t> words(static_cast<size_t>(num_tokens));
  std::vector<int64_t> order(static_cast<size_t>(num_tokens));
  for (int64_t b = 0; b < rows.size(0); ++b) {
    cpu::drop_words(key.key, key.step, static_cast<uint64_t>(rows.const_data_ptr<int64_t>()[b]),
                    num_tokens, words.data());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t left, int64_t right) { return words[left] < words[right]; });
    if (ordered) std::sort(order.begin(), order.begin() + num_keep);
    std::copy_n(order.begin(), num_keep, host.mutable_data_ptr<int64_t>() + b * num_keep);
  }
}

PhiloxKey to_key(int64_t packed) {
  return {static_cast<uint32_t>(packed),
          static_cast<uint32_t>(static_cast<uint64_t>(packed) >> 32)};
}

// fovea::drop_mask on the CPU. stamp: [1 + B] int64 -> [B, elements] float32.
at::Tensor drop_mask_cpu(const at::Tensor& stamp, int64_t packed_key, int64_t elements,
                         double rate) {
  const int64_t B = stamp.size(0) - 1;
  const auto mask = at::empty({B, elements}, stamp.options().dtype(at::kFloat));
  const auto step = static_cast<uint32_t>(stamp.const_data_ptr<int64_t>()[0]);
  const auto* row = stamp.const_data_ptr<int64_t>() + 1;
  auto* out = mask.mutable_data_ptr<float>();
  const auto threshold = cpu::drop_threshold(rate);
  const auto scale = static_cast<float>(1.0 / (1.0 - rate));
  const auto key = to_key(packed_key);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, elements));
  cpu::for_ranges(B, grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      cpu::drop_mask_row(key, step, static_cast<uint64_t>(row[b]), elements, threshold, scale,
                         out + b * elements);
    }
  });
  return mask;
}

at::Tensor drop_mask_meta(const at::Tensor& stamp, int64_t, int64_t elements, double) {
  return at::empty({stamp.size(0) - 1, elements}, stamp.options().dtype(at::kFloat));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("drop_mask(Tensor stamp, int key, int elements, float rate) -> Tensor");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) { m.impl("drop_mask", drop_mask_cpu); }
TORCH_LIBRARY_IMPL(fovea, Meta, m) { m.impl("drop_mask", drop_mask_meta); }

at::Tensor drop_stamp(uint32_t step, const at::Tensor& rows, c10::Device device) {
  if (!rows.is_cpu()) {
    return at::cat({at::full({1}, int64_t{step}, rows.options()), rows}).to(device);
  }
  const auto host = at::empty({1 + rows.size(0)}, rows.options().pinned_memory(device.is_cuda()));
  host[0] = int64_t{step};
  host.narrow(0, 1, rows.size(0)).copy_(rows);
  return host.to(device, /*non_blocking=*/true);
}

at::Tensor drop_mask(const DropKey& key, int64_t elements, double rate) {
  FOVEA_CHECK(rate >= 0.0 && rate < 1.0, "drop rate {}; expected a rate in [0, 1)", rate);
  check_key(key);
  const auto packed = static_cast<int64_t>(uint64_t{key.key[1]} << 32 | key.key[0]);
  if (!key.stamp.defined()) refuse_recording("a drop mask that the host draws for itself");
  const auto stamp =
      key.stamp.defined() ? key.stamp : drop_stamp(key.step, key.rows, key.rows.device());
  return drop_mask_op().call(stamp, packed, elements, rate);
}

at::Tensor dropout(const at::Tensor& x, double rate, const DropKey& key) {
  if (rate == 0.0) return x;
  check_rows(key, x);
  auto whole = x.sizes().vec();
  for (const auto& part : key.parts) whole[c10::maybe_wrap_dim(part.dim, x.dim())] *= part.count;
  auto mask = mask_of_elements(x, key, whole, rate);
  for (const auto& part : key.parts) {
    mask = mask.narrow(part.dim, part.index * x.size(part.dim), x.size(part.dim));
  }
  return x * mask;
}

at::Tensor drop_path_mask(const at::Tensor& x, double rate, const DropKey& key) {
  check_rows(key, x);
  const auto mask = mask_for(x, key, 1, rate, at::kFloat).squeeze(1);  // [B]
  return key.offsets.empty() ? mask : for_tokens(mask, key.offsets);
}

at::Tensor drawn_by_host(const DropKey& key, at::IntArrayRef sizes, const at::TensorOptions& like,
                         DrawRows draw) {
  check_key(key);
  const bool is_stamped =
      key.host_stamp.defined() && key.host_stamp.size(0) == 1 + key.rows.size(0);
  if (!is_stamped) refuse_recording("draws of the host whose step and rows are not written anew");
  return host_values(
      sizes, c10::typeMetaToScalarType(like.dtype()), like.device(),
      [key, draw = std::move(draw)](const at::Tensor& host) { draw(host, at_hand(key)); });
}

at::Tensor patch_keep_indices(const DropKey& key, int64_t num_tokens, int64_t num_keep,
                              bool ordered, c10::Device device) {
  check_key(key);
  FOVEA_CHECK(num_keep > 0 && num_keep <= num_tokens,
              "keeping {} of {} tokens; expected at least one and at most all of them", num_keep,
              num_tokens);
  return drawn_by_host(key, {key.rows.size(0), num_keep},
                       at::TensorOptions().dtype(at::kLong).device(device),
                       [num_tokens, ordered](const at::Tensor& host, const DropKey& drawn) {
                         keep_tokens(host, drawn, num_tokens, ordered);
                       });
}

}  // namespace fovea::kernels
