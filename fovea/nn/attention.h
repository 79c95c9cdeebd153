// Multi-head self-attention over tokens.
#pragma once

#include "fovea/nn/attention_core.h"

namespace fovea::nn {

// x: [B, N, D] -> [B, N, D]. Parameters: qkv [3D, D] (rows: q, k, v, each by head), norm, proj and
// those of AttentionCore, where key_mask and offsets are told of. residual: as the output, to which
// it is added; undefined: none. num_read: the first tokens, of which alone an output is asked, [B,
// num_read, D]; 0: of all.
class AttentionImpl : public UnitImpl, public HasAttention {
 public:
  AttentionImpl(const AttentionOptions& options, at::Device device);

  at::Tensor forward(const kernels::LinearInput& x, const at::Tensor& key_mask = {},
                     const at::Tensor& offsets = {}, const at::Tensor& residual = {},
                     int64_t num_read = 0) const;
  AttentionCore& attention_core() override { return core_; }
  const AttentionCore& attention_core() const override { return core_; }

 private:
  AttentionCore core_;
  double proj_drop_rate_;
  Linear qkv_ = nullptr;
  Norm norm_ = nullptr;
  Linear proj_ = nullptr;
};
using Attention = UnitHolder<AttentionImpl>;

}  // namespace fovea::nn
