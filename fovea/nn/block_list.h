// The blocks of a model, one after the other.
#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::nn {

// Drop path rates of `depth` blocks: linear from 0 to `rate` of the last one.
std::vector<double> drop_path_rates(double rate, int64_t depth);

// Block: a module holder whose forward takes x first and gives another of its shape.
template <class Block>
class BlockList {
 public:
  BlockList() = default;

  // Makes `depth` blocks and registers them with `parent` as "<name>.0", "<name>.1" ...
  // make: (index, drop path rate) -> Block.
  template <class Make>
  BlockList(torch::nn::Module& parent, const std::string& name, int64_t depth,
            double drop_path_rate, const Make& make) {
    const auto list = parent.register_module(name, std::make_shared<torch::nn::Module>());
    const auto rates = drop_path_rates(drop_path_rate, depth);
    for (int64_t i = 0; i < depth; ++i) {
      blocks_.push_back(list->register_module(std::to_string(i), make(i, rates[i])));
    }
  }

  // x through all of them, each with the same further inputs; without blocks x itself.
  template <class... Inputs>
  at::Tensor operator()(const at::Tensor& x, const Inputs&... inputs) const {
    return forward_tapped({}, nullptr, x, inputs...);
  }

  // The same, where of what comes out the first num_read tokens alone are read, 0: all, which the
  // last block is told as a further input.
  template <class... Inputs>
  at::Tensor forward_read(int64_t num_read, at::Tensor x, const Inputs&... inputs) const {
    for (const auto& block : blocks_) {
      x = &block == &blocks_.back() ? block(x, inputs..., num_read) : block(x, inputs...);
    }
    return x;
  }

  // The same. tapped: what comes out of the blocks of the indices `taps`, which ascend.
  template <class... Inputs>
  at::Tensor forward_tapped(at::IntArrayRef taps, std::vector<at::Tensor>* tapped, at::Tensor x,
                            const Inputs&... inputs) const {
    size_t next = 0;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = blocks_[i](x, inputs...);
      if (next == taps.size() || taps[next] != static_cast<int64_t>(i)) continue;
      tapped->push_back(x);
      next += 1;
    }
    FOVEA_CHECK(next == taps.size(), "taps [{}] of {} blocks; expected ascending indices of blocks",
                fmt::join(taps, ", "), blocks_.size());
    return x;
  }

 private:
  std::vector<Block> blocks_;
};

}  // namespace fovea::nn
