#include "fovea/serve/model_interface.h"

#include <ATen/ops/from_blob.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/nearest.h"
#include "fovea/core/printable.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

using inference::Kind;
using nlohmann::ordered_json;

constexpr std::string_view kImage = "image", kTensor = "tensor";

std::vector<TensorDescription> given_by(const inference::Predictor& predictor) {
  const int64_t num_classes = predictor.loaded().model->num_classes();
  if (predictor.kind() == Kind::kMasks) {
    const bool is_volume =
        predictor.loaded().input.spatial_dims == 3 || predictor.loaded().takes_slices();
    return {{std::string(kMask), "INT32", std::vector<int64_t>(is_volume ? 3 : 2, -1)},
            {std::string(kVoxels), "INT64", {num_classes}}};
  }
  if (predictor.kind() == Kind::kClasses && num_classes > 0) {
    return {{std::string(kScores), "FP32", {num_classes}}, {std::string(kLabels), "BYTES", {1}}};
  }
  return {};
}

std::vector<TensorDescription> given_on_request(const inference::Predictor& predictor) {
  const auto& model = *predictor.loaded().model;
  std::vector<TensorDescription> outputs;
  if (model.num_features() > 0)
    outputs.push_back({std::string(kFeatures), "FP32", {model.num_features()}});
  if (predictor.kind() == Kind::kMasks)
    outputs.push_back({std::string(kMaskPicture), "BYTES", {1}});
  if (!model.attention_view().blocks.empty())
    outputs.push_back({std::string(kAttention), "BYTES", {1}});
  return outputs;
}

// [C, sides]; -1 where the model takes any size.
std::vector<int64_t> tensor_shape(const inference::Predictor& predictor) {
  auto shape = own_sides(predictor.loaded());
  if (predictor.kind() == Kind::kMasks || predictor.loaded().model->takes_packed()) {
    std::fill(shape.begin() + 1, shape.end(), -1);
  }
  return shape;
}

ordered_json metadata_of(const std::vector<TensorDescription>& tensors) {
  auto list = ordered_json::array();
  for (const auto& tensor : tensors) {
    std::vector<int64_t> shape = {-1};
    shape.insert(shape.end(), tensor.shape.begin(), tensor.shape.end());
    list.push_back({{"name", tensor.name}, {"datatype", tensor.datatype}, {"shape", shape}});
  }
  return list;
}

ordered_json config_of(const std::vector<TensorDescription>& tensors, bool are_optional) {
  auto list = ordered_json::array();
  for (const auto& tensor : tensors) {
    const auto type = tensor.datatype == "BYTES" ? "STRING" : tensor.datatype;
    list.push_back({{"name", tensor.name}, {"data_type", "TYPE_" + type}, {"dims", tensor.shape}});
    if (are_optional) list.back()["optional"] = true;
  }
  return list;
}

std::vector<std::string> names_of(const std::vector<TensorDescription>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

const TensorDescription* find_in(const std::vector<TensorDescription>& tensors,
                                 std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

bool Question::wants(std::string_view output) const {
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const auto& one) { return one.name == output; });
}

ModelInterface::ModelInterface(const inference::Predictor& predictor, const ServeOptions& options)
    : options_(options),
      blank_(predictor.loaded()),
      takes_tensors_(!predictor.loaded().model->takes_patches()),
      inputs_{{std::string(kImage), "BYTES", {1}}},
      outputs_(given_by(predictor)),
      optional_outputs_(given_on_request(predictor)) {
  if (takes_tensors_) inputs_.push_back({std::string(kTensor), "FP32", tensor_shape(predictor)});
  // What there is of a model without classes, such as a masked autoencoder.
  if (outputs_.empty() && !optional_outputs_.empty()) {
    outputs_.push_back(optional_outputs_.front());
    optional_outputs_.erase(optional_outputs_.begin());
  }
  if (predictor.kind() == Kind::kSamples || outputs_.empty()) {
    fail<ConfigError>(
        "a model that gives {} and no features; expected one that gives classes, masks or "
        "features{}",
        to_text(predictor.kind()),
        predictor.kind() == Kind::kSamples ? ": `fovea predict RUN --samples 64` draws its samples"
                                           : "");
  }
}

void ModelInterface::check_batch(const InputTensor& tensor, size_t rank) const {
  const auto& shape = tensor.shape;
  if (shape.size() == rank && shape[0] >= 1 && shape[0] <= options_.max_batch_size) return;
  fail_with(
      400, "input '{}': a shape of {}; expected {} sides, of which the first is the batch, 1 to {}",
      tensor.name, shape_text(shape), rank, options_.max_batch_size);
}

std::vector<inference::Input> ModelInterface::images_of(const InputTensor& tensor) const {
  if (tensor.datatype != "BYTES") {
    fail_with(400, "input '{}': datatype {}; expected BYTES, files as they are", tensor.name,
              tensor.datatype);
  }
  check_batch(tensor, 2);
  if (tensor.shape[1] != 1) {
    fail_with(400, "input '{}': a shape of {}; expected [{}, 1]: one file an input", tensor.name,
              shape_text(tensor.shape), tensor.shape[0]);
  }
  std::vector<inference::Input> inputs;
  for (const auto element : bytes_elements(tensor)) {
    auto name =
        tensor.shape[0] == 1 ? std::string(kImage) : fmt::format("{} {}", kImage, inputs.size());
    inputs.push_back({inference::EncodedInput{{element.begin(), element.end()}, std::move(name)}});
  }
  return inputs;
}

std::vector<inference::Input> ModelInterface::tensors_of(const InputTensor& tensor) const {
  const bool is_half = tensor.datatype == "BF16";
  if (!is_half && tensor.datatype != "FP32") {
    fail_with(400, "input '{}': datatype {}; expected FP32 or BF16", tensor.name, tensor.datatype);
  }
  const auto& expected = find_in(inputs_, kTensor)->shape;
  check_batch(tensor, expected.size() + 1);
  const bool has_pixels =
      std::all_of(tensor.shape.begin(), tensor.shape.end(), [](int64_t side) { return side > 0; });
  if (tensor.shape[1] != expected[0] || !has_pixels) {
    fail_with(400, "input '{}': a shape of {}; expected [batch, {}], already normalised (-1: any)",
              tensor.name, shape_text(tensor.shape), fmt::join(expected, ", "));
  }
  const auto dtype = is_half ? at::kBFloat16 : at::kFloat;
  // Bytes lie anywhere in the body: copied to where numbers may lie.
  auto batch = at::empty(tensor.shape, dtype);
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), static_cast<char*>(batch.mutable_data_ptr()));
  std::vector<inference::Input> inputs;
  for (const auto& one : batch.to(at::kFloat).unbind(0)) inputs.push_back({one});
  return inputs;
}

void ModelInterface::check_output(const OutputRequest& output) const {
  const auto* known = find_in(outputs_, output.name);
  if (known == nullptr) known = find_in(optional_outputs_, output.name);
  if (known == nullptr) {
    auto names = names_of(outputs_);
    const auto others = names_of(optional_outputs_);
    names.insert(names.end(), others.begin(), others.end());
    fail_with(400, "unknown output '{}'; expected {}{}", printable_start(output.name),
              fmt::join(names, ", "), or_did_you_mean(output.name, names));
  }
  if (output.classification > 0 && output.name != kScores) {
    fail_with(400, "output '{}': classification; expected it of '{}' alone", output.name, kScores);
  }
}

// Those that are named, or else what the model gives; and those that a parameter turns on.
std::vector<OutputRequest> ModelInterface::outputs_of(const InferRequest& request) const {
  auto outputs = request.outputs;
  if (outputs.empty()) {
    for (const auto& output : outputs_)
      outputs.push_back({.name = output.name, .is_binary = request.is_output_binary});
  }
  for (const auto& output : outputs) check_output(output);
  for (const auto& output : optional_outputs_) {
    const bool is_there = std::any_of(outputs.begin(), outputs.end(),
                                      [&](const auto& one) { return one.name == output.name; });
    if (!is_there && request.flag(output.name))
      outputs.push_back({.name = output.name, .is_binary = request.is_output_binary});
  }
  return outputs;
}

Question ModelInterface::read(InferRequest&& request) const {
  const auto expected = takes_tensors_ ? "one of `image` and `tensor`" : "`image`";
  if (request.inputs.size() != 1) {
    fail_with(400, "{} inputs; expected {}", request.inputs.size(), expected);
  }
  const auto& tensor = request.inputs.front();
  if (find_in(inputs_, tensor.name) == nullptr) {
    fail_with(400, "unknown input '{}'; expected {}{}", printable_start(tensor.name), expected,
              or_did_you_mean(tensor.name, names_of(inputs_)));
  }
  Question question;
  question.outputs = outputs_of(request);
  question.inputs = tensor.name == kImage ? images_of(tensor) : tensors_of(tensor);
  question.id = std::move(request.id);
  question.timeout_microseconds = request.timeout_microseconds;
  return question;
}

ordered_json ModelInterface::metadata(const std::string& name) const {
  return {{"name", name},
          {"versions", {kModelVersion}},
          {"platform", "fovea"},
          {"inputs", metadata_of(inputs_)},
          {"outputs", metadata_of(outputs_)}};
}

ordered_json ModelInterface::config(const std::string& name) const {
  auto preferred = options_.preferred_batch_size;
  if (preferred.empty()) preferred.push_back(options_.max_batch_size);
  const ordered_json policy = {
      {"timeout_action", "REJECT"},
      {"default_timeout_microseconds", options_.default_timeout_microseconds},
      {"allow_timeout_override", true},
      {"max_queue_size", options_.max_queue_size}};
  const ordered_json batching = {
      {"preferred_batch_size", preferred},
      {"max_queue_delay_microseconds", options_.max_queue_delay_microseconds},
      {"preserve_ordering", false},
      {"default_queue_policy", policy}};
  const auto on_request = fmt::format("{}", fmt::join(names_of(optional_outputs_), ","));
  return {{"name", name},
          {"platform", "fovea"},
          {"backend", "fovea"},
          {"version_policy", {{"latest", {{"num_versions", 1}}}}},
          {"max_batch_size", options_.max_batch_size},
          {"input", config_of(inputs_, inputs_.size() > 1)},
          {"output", config_of(outputs_, false)},
          {"dynamic_batching", batching},
          {"parameters", {{"outputs_on_request", {{"string_value", on_request}}}}}};
}

Question ModelInterface::blank_question(int64_t size) const {
  Question question;
  question.inputs.assign(static_cast<size_t>(size), blank_.make());
  question.outputs = outputs_of({});
  return question;
}

}  // namespace fovea::serve
