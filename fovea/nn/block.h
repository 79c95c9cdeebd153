// The pre-norm transformer block.
#pragma once

#include <optional>

#include "fovea/nn/attention.h"
#include "fovea/nn/layer_scale.h"
#include "fovea/nn/mlp.h"
#include "fovea/nn/stochastic_depth.h"

namespace fovea::nn {

struct BlockOptions {
  AttentionOptions attention;
  MlpOptions mlp;
  NormOptions norm = {};
  bool has_layer_scale = false;
  double drop_path_rate = 0.0;
  bool drop_path_skip = false;  // see DropPath
};

// x: [B, N, D] -> [B, N, D]: x += drop_path(ls1(attn(norm1(x)))), then the same with norm2, mlp,
// ls2. key_mask, offsets: see Attention.
class BlockImpl : public UnitImpl {
 public:
  BlockImpl(const BlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& offsets = {});

 private:
  DropPath drop_path_;
  Norm norm1_ = nullptr;
  Attention attn_ = nullptr;
  LayerScale ls1_ = nullptr;
  Norm norm2_ = nullptr;
  Mlp mlp_ = nullptr;
  LayerScale ls2_ = nullptr;
};
TORCH_MODULE(Block);

// Rates of `depth` blocks: linear from 0 to `rate` of the last one.
std::vector<double> drop_path_rates(double rate, int64_t depth);

}  // namespace fovea::nn
