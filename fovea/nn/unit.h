// nn::Unit: the base of every module of ours that is named, recorded, sharded or recomputed as one
// piece.
//
// libtorch's C++ modules have no hooks and do not know their own names. A Unit has both:
// `assign_names` gives each its path in the model ("blocks.3.attn"), from which its drop masks are
// keyed and its outputs recorded; callbacks before and after forward are what parallel/ uses.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/kernels/elementwise/drop.h"
#include "fovea/kernels/linear/linear.h"

namespace fovea::nn {

// The forward of a Unit as a function of the tensors that it was given, of which some may be
// undefined. It can be called again for as long as the unit lives.
using UnitForward = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// What a drop layer that decides element by element is given.
enum class DropOf {
  kTokens,  // [B, N, D]: what the unit makes of the tokens that it is given, each by itself
  kHidden,  // [B, N, F], or [B, F]: what one Linear of the unit makes for another one
  kHeads,   // [B, H, N, N]: how much each head attends, from all tokens to all tokens
};

class UnitImpl : public torch::nn::Module {
 public:
  // "blocks.3.attn"; empty for the model itself, or before assign_names.
  const std::string& path() const { return path_; }
  void set_path(std::string path) { path_ = std::move(path); }

  std::vector<std::function<void(const UnitImpl&)>> before_forward;
  std::vector<std::function<void(const UnitImpl&)>> after_forward;
  // Given what the forward returns, after the callbacks above.
  std::vector<std::function<void(const at::Tensor&)>> on_output;
  // What stands around the forward of a unit that names its inputs: each gets the forward within it
  // and the inputs, and gives the output. The last one is the outermost; all are within the
  // callbacks above.
  std::vector<std::function<at::Tensor(const UnitForward&, const std::vector<at::Tensor>&)>>
      around_forward;

  // Called by the constructor of a unit for each drop layer that decides element by element. It is
  // the unit that says it, and not the partitioning of each model that has such a unit: it alone
  // knows where its drops stand.
  void declare_drop(std::string name, DropOf of) { drops_.emplace(std::move(name), of); }
  const std::map<std::string, DropOf>& drops() const { return drops_; }
  // Whether what it gives is one for all tokens of a sample, which need not be together for it.
  virtual bool is_one_for_all_tokens() const { return false; }
  // Set from outside where this unit sees some of the tokens, heads or hidden features alone: for
  // each drop layer that is declared, the parts of its tensor that are here; see kernels::DropKey.
  std::optional<std::map<std::string, std::vector<kernels::DropPart>>> drop_parts;

  // Gives x to the recorder in force under "<path>.<name>" (or "<path>" where name is empty), if
  // there is one.
  void record(const std::string& name, const at::Tensor& x) const;
  // Whether one is there that keeps it.
  bool is_recorded(const std::string& name) const;

  // The key of a drop layer of this unit, e.g. drop_key("proj_drop") -> stream "<path>.proj_drop".
  // Throws Error when called in training without a StepScope, or for a layer that is not declared
  // where drop_parts are set.
  kernels::DropKey drop_key(const std::string& name) const;
  // The same where one decision is made for a sample, so that nothing need be declared.
  kernels::DropKey sample_drop_key(const std::string& name) const;

  // Dropout in training, x itself in evaluation or at rate 0. x: [B, ...]
  at::Tensor dropout(const at::Tensor& x, double rate, const char* name) const;
  // What drop path multiplies the samples of x by in training; undefined in evaluation or at rate
  // 0. x: [B, ...] -> [B]
  at::Tensor drop_path_mask(const at::Tensor& x, double rate, const char* name) const;

  // y + residual, or y where there is none.
  static at::Tensor onto(const at::Tensor& residual, const at::Tensor& y) {
    return residual.defined() ? residual + y : y;
  }

  // Whether somebody stands around the forward or looks at its output. A forward that nobody
  // watches may be done as part of another operation.
  bool is_watched() const;

 protected:
  // What the forward of a Unit is wrapped in: the callbacks before, the body, the callbacks after;
  // then its output is recorded under the unit's path.
  template <class Body>
  at::Tensor run(Body&& body) const {
    for (const auto& callback : before_forward) callback(*this);
    at::Tensor y = body();
    for (const auto& callback : after_forward) callback(*this);
    for (const auto& callback : on_output) callback(y);
    record("", y);
    return y;
  }

  // The same for a body that depends on these tensors and the unit alone: it captures `this` and
  // numbers, and may be run again. What stands around the forward sees the tensor of a LinearInput,
  // not what that was made of.
  template <class Body, class First, class... Inputs>
  at::Tensor run(const Body& body, const First& first, const Inputs&... rest) const {
    return run([&] {
      if (around_forward.empty()) return at::Tensor(body(first, rest...));
      return run_around(
          [body](const std::vector<at::Tensor>& inputs) {
            return call(body, inputs, std::make_index_sequence<1 + sizeof...(Inputs)>());
          },
          {tensor_of(first), tensor_of(rest)...});
    });
  }

  // The same plus `residual`, if that is defined, for a body that adds its last argument where it
  // is defined. Somebody who watches the unit sees what it makes without.
  template <class Body, class... Inputs>
  at::Tensor run_onto(const at::Tensor& residual, const Body& body, const Inputs&... inputs) const {
    if (!is_watched()) return body(inputs..., residual);
    const auto y =
        run([body](const auto&... given) { return body(given..., at::Tensor()); }, inputs...);
    return onto(residual, y);
  }

 private:
  static const at::Tensor& tensor_of(const at::Tensor& x) { return x; }
  static const at::Tensor& tensor_of(const kernels::LinearInput& input) { return input.x; }

  template <class Body, size_t... kIndices>
  static at::Tensor call(const Body& body, const std::vector<at::Tensor>& inputs,
                         std::index_sequence<kIndices...>) {
    return body(inputs[kIndices]...);
  }
  at::Tensor run_around(UnitForward forward, const std::vector<at::Tensor>& inputs) const;

  std::string path_;
  std::map<std::string, DropOf> drops_;
};

using UnitsByPath = torch::OrderedDict<std::string, UnitImpl*>;

// Every Unit of `root` with its path below it, in the order of registration: the root itself, where
// it is one, first and without a path.
UnitsByPath units_of(torch::nn::Module& root);

// Gives every Unit of `root` its path.
void assign_names(torch::nn::Module& root);

}  // namespace fovea::nn
