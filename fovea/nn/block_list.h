// The blocks of a model, one after the other.
#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/nn/samples_apart.h"
#include "fovea/nn/unit.h"

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
      for (const auto& unit : units_of(*blocks_.back())) units_.push_back(unit.value());
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
  at::Tensor forward_read(int64_t num_read, const at::Tensor& x, const Inputs&... inputs) const {
    const auto call = [&](size_t i, const at::Tensor& y, const auto&... given) {
      return i + 1 == blocks_.size() ? blocks_[i](y, given..., num_read) : blocks_[i](y, given...);
    };
    return through_all({}, {x, inputs...}, call, std::make_index_sequence<sizeof...(Inputs)>())
        .back();
  }

  // The same as the first. tapped: what comes out of the blocks of the indices `taps`, which
  // ascend.
  template <class... Inputs>
  at::Tensor forward_tapped(at::IntArrayRef taps, std::vector<at::Tensor>* tapped,
                            const at::Tensor& x, const Inputs&... inputs) const {
    const auto call = [&](size_t i, const at::Tensor& y, const auto&... given) {
      return blocks_[i](y, given...);
    };
    auto made =
        through_all(taps, {x, inputs...}, call, std::make_index_sequence<sizeof...(Inputs)>());
    FOVEA_CHECK(made.size() == taps.size() + 1,
                "taps [{}] of {} blocks; expected ascending indices of blocks",
                fmt::join(taps, ", "), blocks_.size());
    const auto y = std::move(made.back());
    made.pop_back();
    if (tapped) tapped->insert(tapped->end(), made.begin(), made.end());
    return y;
  }

 private:
  // What comes out of the blocks of the indices `taps`, and out of the last one.
  template <class Call, size_t... kIndices>
  std::vector<at::Tensor> through_all(at::IntArrayRef taps, const std::vector<at::Tensor>& inputs,
                                      const Call& call, std::index_sequence<kIndices...>) const {
    return forward_apart(units_, inputs, [&](const std::vector<at::Tensor>& given) {
      std::vector<at::Tensor> made;
      auto x = given[0];
      for (size_t i = 0; i < blocks_.size(); ++i) {
        x = call(i, x, given[1 + kIndices]...);
        if (made.size() < taps.size() && taps[made.size()] == static_cast<int64_t>(i))
          made.push_back(x);
      }
      made.push_back(x);
      return made;
    });
  }

  std::vector<UnitImpl*> units_;  // of the blocks
  std::vector<Block> blocks_;
};

}  // namespace fovea::nn
