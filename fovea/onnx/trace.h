// What a model's forward does, as a list of calls: the one description of a model stays its
// forward, and an export reads it off instead of repeating it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fovea/models/model.h"

namespace fovea::onnx {

// A number among a call's arguments or sides: fixed, or so many times the batch size.
struct Size {
  int64_t fixed = 0;
  int64_t batches = 0;  // not 0: batches * batch size

  bool is_fixed() const { return batches == 0; }
};
using Sizes = std::vector<Size>;

struct ValueId {
  size_t index = 0;
};

// Nothing stands for None.
using Argument = std::variant<std::monostate, ValueId, Size, double, bool, std::string, Sizes,
                              std::vector<ValueId>>;

struct Value {
  Sizes shape = {};
  at::ScalarType dtype = at::kFloat;
  std::string parameter = {};  // its name in the model, where it is one
  at::Tensor constant = {};    // a tensor that depends on nothing, where it is one
};

// One operation of libtorch.
struct Call {
  std::string name;                                // "aten::linear"
  std::string path = {};                           // of the unit that made it: "blocks.3.attn"
  std::map<std::string, Argument> arguments = {};  // by the names of its schema
  std::vector<ValueId> outputs = {};
};

struct Trace {
  std::vector<Value> values;
  std::vector<Call> calls;
  std::vector<ValueId> inputs, outputs;
};

// What the model is given, behind the batch.
struct TracedInput {
  std::string name;  // "images"
  std::vector<int64_t> sides;
  at::ScalarType dtype = at::kFloat;  // or at::kLong, at::kBool
  std::string help = {};              // what a program has to give
};

using TracedForward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// Runs `forward` of `model` on zeros for `inputs` and writes down its calls. batch_size: none: any;
// it runs with two sizes, and what differs is what depends on it. Parameters take no memory
// meanwhile and come back as they were. Not for two threads at once with one model. Throws
// ConfigError where the calls depend on the batch in another way.
Trace trace_forward(models::Model& model, const TracedForward& forward,
                    const std::vector<TracedInput>& inputs, std::optional<int64_t> batch_size);

}  // namespace fovea::onnx
