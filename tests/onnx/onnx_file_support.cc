#include <ATen/ATen.h>

#include <fstream>
#include <sstream>

#include "tests/onnx/onnx_file.h"
#include "tests/support/protobuf_reader.h"

namespace fovea::onnx::testing {
namespace {

using support::ProtobufMessage;

std::string bytes_of(const std::string& path) {
  std::ostringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(stream).str();
}

FileNode read_node(std::string_view bytes) {
  const ProtobufMessage message(bytes);
  FileNode node{message.text(4), message.text(3), {}, {}, {}};
  for (const auto& input : message.texts(1)) node.inputs.emplace_back(input);
  for (const auto& output : message.texts(2)) node.outputs.emplace_back(output);
  for (const auto& entry : message.texts(5)) {
    const ProtobufMessage field(entry);
    auto& attribute = node.attributes[field.text(1)];
    switch (field.integer(20)) {
      case 1:
        attribute.real = field.real(2);
        break;
      case 2:
        attribute.integer = field.integer(3);
        break;
      case 3:
        attribute.text = field.text(4);
        break;
      case 7:
        attribute.integers = field.integers(8);
        break;
      default:
        throw std::runtime_error("an attribute of no type");
    }
  }
  return node;
}

at::Tensor read_tensor(const ProtobufMessage& message, const std::string& folder) {
  auto raw = message.text(9);
  if (message.integer(14) == 1) {
    std::map<std::string, std::string> place;
    for (const auto& entry : message.texts(13)) {
      const ProtobufMessage pair(entry);
      place[pair.text(1)] = pair.text(2);
    }
    raw = bytes_of(folder + "/" + place.at("location"))
              .substr(std::stoull(place.at("offset")), std::stoull(place.at("length")));
  }
  const std::map<int64_t, at::ScalarType> kinds = {
      {1, at::kFloat}, {2, at::kByte}, {3, at::kChar}, {7, at::kLong}, {9, at::kBool}};
  const auto kind = kinds.at(message.integer(2));
  auto value = at::empty(message.integers(1), kind);
  if (value.nbytes() != raw.size()) throw std::runtime_error("a tensor of another size");
  std::memcpy(value.data_ptr(), raw.data(), raw.size());
  return value;
}

FilePort read_port(std::string_view bytes) {
  const ProtobufMessage message(bytes);
  FilePort port;
  port.name = message.text(1);
  const ProtobufMessage type{ProtobufMessage{message.text(2)}.text(1)};
  const auto kind = type.integer(1);
  if (kind != 1 && kind != 7 && kind != 9) throw std::runtime_error("a port of another type");
  port.dtype = kind == 1 ? at::kFloat : kind == 7 ? at::kLong : at::kBool;
  if (message.has(3)) port.help = message.text(3);
  const std::string shape = type.text(2);
  for (const auto& side : ProtobufMessage(shape).texts(1)) {
    const ProtobufMessage size(side);
    port.shape.push_back(size.has(2) ? size.text(2) : std::to_string(size.integer(1)));
  }
  return port;
}

std::vector<int64_t> list_of(const at::Tensor& values) {
  return {values.data_ptr<int64_t>(), values.data_ptr<int64_t>() + values.numel()};
}

at::Tensor pad(const at::Tensor& x, const std::vector<int64_t>& pads, double value) {
  const auto sides = static_cast<size_t>(x.dim());
  std::vector<int64_t> pairs;
  for (size_t i = sides; i-- > 0;) {
    pairs.push_back(pads[i]);
    pairs.push_back(pads[sides + i]);
  }
  return at::constant_pad_nd(x, pairs, value);
}

at::Tensor convolve(const FileNode& node, const std::vector<at::Tensor>& in) {
  const auto at_node = [&](const char* name) { return node.attributes.at(name).integers; };
  auto pads = at_node("pads");
  pads.resize(pads.size() / 2);
  const bool is_transposed = node.op_type == "ConvTranspose";
  const auto output_padding =
      is_transposed ? at_node("output_padding") : std::vector<int64_t>(pads.size(), 0);
  return at::convolution(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(), at_node("strides"),
                         pads, at_node("dilations"), is_transposed, output_padding,
                         node.attributes.at("group").integer);
}

at::Tensor resize(const FileNode& node, const std::vector<at::Tensor>& in) {
  const auto sizes = list_of(in[3]);
  const bool corners = node.attributes.at("coordinate_transformation_mode").text == "align_corners";
  const std::vector<int64_t> sides(sizes.begin() + 2, sizes.end());
  return sides.size() == 3 ? at::upsample_trilinear3d(in[0], sides, corners)
                           : at::upsample_bilinear2d(in[0], sides, corners);
}

at::Tensor gather(const at::Tensor& x, const at::Tensor& index, int64_t axis) {
  auto shape = x.sizes().vec();
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, index.sizes().begin(), index.sizes().end());
  return x.index_select(axis, index.reshape({-1})).reshape(shape);
}

at::Tensor reduce(const FileNode& node, const std::vector<at::Tensor>& in) {
  const auto sides = in.size() > 1 ? list_of(in[1]) : node.attributes.at("axes").integers;
  const bool keeps = node.attributes.at("keepdims").integer != 0;
  if (node.op_type == "ReduceMean") return in[0].mean(sides, keeps);
  return node.op_type == "ReduceSum" ? in[0].sum(sides, keeps) : at::amax(in[0], sides, keeps);
}

// Of uint8 and one scale, or of int8 and a scale for each part of an axis.
at::Tensor quantized(const FileNode& node, const std::vector<at::Tensor>& in) {
  if (node.op_type == "QuantizeLinear") {
    return (at::round(in[0] / in[1]) + in[2].to(at::kFloat)).clamp(0, 255).to(at::kByte);
  }
  if (node.op_type != "DequantizeLinear") return {};
  std::vector<int64_t> sides(static_cast<size_t>(in[0].dim()), 1);
  if (in[1].dim() == 1) {
    sides.at(static_cast<size_t>(node.attributes.at("axis").integer)) = in[1].size(0);
  }
  return (in[0].to(at::kInt) - in[2].to(at::kInt).reshape(sides)).to(at::kFloat) *
         in[1].reshape(sides);
}

at::Tensor arithmetic(const FileNode& node, const std::vector<at::Tensor>& in) {
  const auto& op = node.op_type;
  if (op == "MatMul") return at::matmul(in[0], in[1]);
  if (op == "Gemm") {
    return at::matmul(in[0], node.attributes.at("transB").integer == 1 ? in[1].t() : in[1]);
  }
  if (op == "Add") return in[0] + in[1];
  if (op == "Sub") return in[0] - in[1];
  if (op == "Mul") return in[0] * in[1];
  if (op == "Div") return in[0] / in[1];
  if (op == "Erf") return at::erf(in[0]);
  if (op == "Exp") return at::exp(in[0]);
  if (op == "Tanh") return at::tanh(in[0]);
  if (op == "Sigmoid") return at::sigmoid(in[0]);
  if (op == "Relu") return at::relu(in[0]);
  if (op == "LeakyRelu") return at::leaky_relu(in[0], node.attributes.at("alpha").real);
  if (op == "Sqrt") return at::sqrt(in[0]);
  if (op == "Reciprocal") return at::reciprocal(in[0]);
  if (op == "Not") return in[0].logical_not();
  if (op == "And") return in[0].logical_and(in[1]);
  if (op == "Or") return in[0].logical_or(in[1]);
  if (op == "Where") return at::where(in[0], in[1], in[2]);
  if (op.starts_with("Reduce")) return reduce(node, in);
  return {};
}

at::Tensor movement(const FileNode& node, const std::vector<at::Tensor>& in) {
  const auto& op = node.op_type;
  const auto axis = [&] { return node.attributes.at("axis").integer; };
  if (op == "Identity") return in[0];
  if (op == "Reshape") return in[0].reshape(list_of(in[1]));
  if (op == "Transpose") return in[0].permute(node.attributes.at("perm").integers).contiguous();
  if (op == "Gather") return gather(in[0], in[1], axis());
  if (op == "GatherElements") return in[0].gather(axis(), in[1]);
  if (op == "ScatterElements") return in[0].scatter(axis(), in[1], in[2]);
  if (op == "Cast") {
    const auto to = node.attributes.at("to").integer;
    return in[0].to(to == 1 ? at::kFloat : to == 7 ? at::kLong : at::kBool);
  }
  if (op == "Concat") return at::cat(in, axis());
  if (op == "Expand") return at::broadcast_tensors({in[0], at::empty(list_of(in[1]))})[0];
  if (op == "Pad") return pad(in[0], list_of(in[1]), in[2].item<float>());
  if (op == "Slice") {
    return in[0].slice(in[3].item<int64_t>(), in[1].item<int64_t>(), in[2].item<int64_t>(),
                       in[4].item<int64_t>());
  }
  if (op == "Shape") {
    const auto all = at::tensor(in[0].sizes().vec(), at::kLong);
    return all.slice(0, node.attributes.at("start").integer, node.attributes.at("end").integer);
  }
  return {};
}

at::Tensor layer(const FileNode& node, const std::vector<at::Tensor>& in) {
  const auto& op = node.op_type;
  if (op == "Softmax") return at::softmax(in[0], node.attributes.at("axis").integer);
  if (op == "LayerNormalization") {
    return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in.size() > 2 ? in[2] : at::Tensor(),
                          node.attributes.at("epsilon").real);
  }
  if (op == "InstanceNormalization") {
    return at::instance_norm(in[0], in[1], in[2], {}, {}, true, 0.1,
                             node.attributes.at("epsilon").real, false);
  }
  if (op == "Conv" || op == "ConvTranspose") return convolve(node, in);
  return op == "Resize" ? resize(node, in) : at::Tensor();
}

std::vector<at::Tensor> evaluate(const FileNode& node, const std::vector<at::Tensor>& in) {
  if (node.op_type == "Split") {
    return at::split_with_sizes(in[0], list_of(in[1]), node.attributes.at("axis").integer);
  }
  for (const auto family : {arithmetic, movement, layer, quantized}) {
    if (const auto y = family(node, in); y.defined()) return {y};
  }
  throw std::runtime_error("operator " + node.op_type);
}

}  // namespace

OnnxFile OnnxFile::read(const std::string& path) {
  const auto bytes = bytes_of(path);
  const ProtobufMessage model(bytes);
  OnnxFile file;
  file.ir_version = model.integer(1);
  file.producer = model.text(2);
  file.opset = ProtobufMessage(model.texts(8).at(0)).integer(2);
  for (const auto& entry : model.texts(14)) {
    const ProtobufMessage pair(entry);
    file.metadata[pair.text(1)] = pair.text(2);
  }
  const ProtobufMessage graph(model.texts(7).at(0));
  for (const auto& node : graph.texts(1)) file.nodes.push_back(read_node(node));
  const auto folder = path.substr(0, path.rfind('/'));
  for (const auto& entry : graph.texts(5)) {
    const ProtobufMessage message(entry);
    file.initializers[message.text(8)] = read_tensor(message, folder);
  }
  for (const auto& port : graph.texts(11)) file.inputs.push_back(read_port(port));
  for (const auto& port : graph.texts(12)) file.outputs.push_back(read_port(port));
  return file;
}

std::map<std::string, at::Tensor> OnnxFile::run(
    const std::map<std::string, at::Tensor>& given) const {
  auto values = initializers;
  for (const auto& port : inputs) {
    const auto& value = given.at(port.name);
    if (value.scalar_type() != port.dtype) throw std::runtime_error("another type " + port.name);
    values[port.name] = value;
  }
  for (const auto& node : nodes) {
    std::vector<at::Tensor> in;
    for (const auto& name : node.inputs) {
      if (!name.empty() && !values.contains(name)) throw std::runtime_error("no value " + name);
      in.push_back(name.empty() ? at::Tensor() : values.at(name));
    }
    const auto out = evaluate(node, in);
    for (size_t i = 0; i < out.size(); ++i) values[node.outputs.at(i)] = out[i];
  }
  std::map<std::string, at::Tensor> results;
  for (const auto& port : outputs) results[port.name] = values.at(port.name);
  return results;
}

int64_t OnnxFile::count(const std::string& op_type) const {
  int64_t count = 0;
  for (const auto& node : nodes) count += node.op_type == op_type;
  return count;
}

}  // namespace fovea::onnx::testing
