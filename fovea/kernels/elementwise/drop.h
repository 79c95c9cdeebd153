// Dropout, drop path and patch dropout from a counter-based generator.
//
// Note [Drop masks]. The decision for one element is a function of (seed, step, layer name, row of
// the sample in the global batch, element of the sample), so tensor and context parallel ranks,
// recomputation and any split into micro-batches agree. With key = philox_key(seed, layer name):
//   word(row, e) = philox4x32({e / 4, row mod 2^32, row / 2^32, step mod 2^32}, key)[e mod 4]
//   kept when word >= round(rate * 2^32); what is kept is divided by 1 - rate.
// Drop path uses e = 0. tools/golden/philox.py states the same in Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/core/philox.h"

namespace fovea::kernels {

// Part number `index` of `count` equal parts along `dim`, which is counted from the front or, where
// negative, from the back.
struct DropPart {
  int64_t dim = 0;
  int64_t index = 0;
  int64_t count = 1;
};

struct DropKey {
  PhiloxKey key{};  // philox_key(seed, layer name)
  uint32_t step = 0;
  at::Tensor rows;  // [B] int64, CPU: row of each sample in the global batch
  // Which part x is of the tensor that the elements are counted in; empty: all of it. dropout alone
  // looks at it.
  std::vector<DropPart> parts = {};
  // [B + 1] Where each sample begins among the tokens of x, and their end, where the samples lie
  // one behind another in a single row [1, T, ...]; empty: each is a row of x. Decisions are the
  // same. dropout and drop_path alone look at it.
  std::vector<int64_t> offsets = {};
  // drop_stamp of step and rows where masks are drawn, so that it is not made for each; what a
  // recorded step reads the two from. Undefined: made when it is needed.
  at::Tensor stamp = {};
  // The same on the CPU, for what the host draws in a recorded step; undefined: step and rows.
  at::Tensor host_stamp = {};
};

// [1 + B] int64 on `device`: the step, then the rows.
at::Tensor drop_stamp(uint32_t step, const at::Tensor& rows, c10::Device device);

// Words of Note [Drop masks] as a float mask 0 or 1/(1-rate). rows: [B] -> [B, elements] float32.
at::Tensor drop_mask(const DropKey& key, int64_t elements, double rate);

// x: [B, ...], or [1, T, ...] with key.offsets; one decision per element.
at::Tensor dropout(const at::Tensor& x, double rate, const DropKey& key);

// Drop path (stochastic depth, Huang et al. 2016), one decision per sample of x, as dropout has it:
// what the samples are multiplied by, 0 or 1/(1-rate). -> [B] float32 where x lives, with
// key.offsets [T], each sample's for its tokens; see add_residual().
at::Tensor drop_path_mask(const at::Tensor& x, double rate, const DropKey& key);

// Writes all values of a contiguous tensor in host memory, drawn by key.step and key.rows.
using DrawRows = std::function<void(const at::Tensor& host, const DropKey& key)>;

// A tensor of the dtype and device of `like` with what the host draws; in a recorded step anew for
// each replay, with its step and rows (host_part.h).
at::Tensor drawn_by_host(const DropKey& key, at::IntArrayRef sizes, const at::TensorOptions& like,
                         DrawRows draw);

// The tokens that patch dropout keeps: for each sample the num_keep tokens with the smallest words,
// ties to the lower token; in order of their words, or of their position if `ordered`. -> [B,
// num_keep] int64 on `device`, drawn by the host.
at::Tensor patch_keep_indices(const DropKey& key, int64_t num_tokens, int64_t num_keep,
                              bool ordered, c10::Device device = c10::kCPU);

}  // namespace fovea::kernels
