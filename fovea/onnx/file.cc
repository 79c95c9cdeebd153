#include "fovea/onnx/file.h"

#include <filesystem>
#include <span>

#include "fovea/files/atomic_file.h"
#include "fovea/files/protobuf.h"

// Field numbers of onnx/onnx.proto, IR version 8.
namespace fovea::onnx {
namespace {

using protobuf::bytes;
using protobuf::integer;
using protobuf::real32;

constexpr int64_t kIrVersion = 8;  // that of opset 17

namespace attribute {
constexpr uint64_t kName = 1, kReal = 2, kInteger = 3, kText = 4, kIntegers = 8, kType = 20;
constexpr int64_t kRealType = 1, kIntegerType = 2, kTextType = 3, kIntegersType = 7;
}  // namespace attribute
namespace node {
constexpr uint64_t kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5;
}
namespace tensor {
constexpr uint64_t kDims = 1, kDataType = 2, kName = 8, kRawData = 9, kExternalData = 13,
                   kDataLocation = 14;
constexpr int64_t kExternal = 1;
}  // namespace tensor
namespace graph_field {
constexpr uint64_t kNode = 1, kName = 2, kInitializer = 5, kInput = 11, kOutput = 12;
}
namespace model_field {
constexpr uint64_t kIrVersion = 1, kProducer = 2, kProducerVersion = 3, kGraph = 7, kOpset = 8,
                   kMetadata = 14;
}

std::string pair_of(const std::string& key, const std::string& value) {
  return bytes(1, key) + bytes(2, value);
}

struct AttributeWriter {
  std::string operator()(int64_t value) const {
    return integer(attribute::kInteger, value) + integer(attribute::kType, attribute::kIntegerType);
  }
  std::string operator()(float value) const {
    return real32(attribute::kReal, value) + integer(attribute::kType, attribute::kRealType);
  }
  std::string operator()(const std::string& value) const {
    return bytes(attribute::kText, value) + integer(attribute::kType, attribute::kTextType);
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    std::string text;
    for (const auto value : values) text += integer(attribute::kIntegers, value);
    return text + integer(attribute::kType, attribute::kIntegersType);
  }
};

std::string encoded(const Node& item) {
  std::string text;
  for (const auto& input : item.inputs) text += bytes(node::kInput, input);
  for (const auto& output : item.outputs) text += bytes(node::kOutput, output);
  text += bytes(node::kName, item.name) + bytes(node::kOpType, item.op_type);
  for (const auto& [name, value] : item.attributes) {
    text += bytes(node::kAttribute,
                  bytes(attribute::kName, name) + std::visit(AttributeWriter{}, value));
  }
  return text;
}

std::string encoded(const Port& port) {
  std::string sides;
  for (const auto& size : port.shape) {
    sides += bytes(1, size.is_fixed() ? integer(1, size.fixed) : bytes(2, "batch"));
  }
  const auto type = integer(1, number_of_type(port.dtype)) + bytes(2, sides);
  auto text = bytes(1, port.name) + bytes(2, bytes(1, type));
  if (!port.help.empty()) text += bytes(3, port.help);
  return text;
}

std::span<const std::byte> raw_bytes(const at::Tensor& value) {
  return {static_cast<const std::byte*>(value.const_data_ptr()), value.nbytes()};
}

// All of a TensorProto but its values.
std::string head_of(const Initializer& item) {
  std::string text;
  for (const auto side : item.value.sizes()) text += integer(tensor::kDims, side);
  return text + integer(tensor::kDataType, number_of_type(item.value.scalar_type())) +
         bytes(tensor::kName, item.name);
}

// A text, and raw bytes that follow it.
struct Piece {
  std::string text;
  std::span<const std::byte> raw = {};
};

Piece inline_piece(const Initializer& item) {
  const auto raw = raw_bytes(item.value);
  const auto head = head_of(item) + protobuf::key(tensor::kRawData, protobuf::kBytes) +
                    protobuf::varint(raw.size());
  return {protobuf::key(graph_field::kInitializer, protobuf::kBytes) +
              protobuf::varint(head.size() + raw.size()) + head,
          raw};
}

Piece external_piece(const Initializer& item, const std::string& file, int64_t offset) {
  auto text = head_of(item);
  for (const auto& entry : {pair_of("location", file), pair_of("offset", std::to_string(offset)),
                            pair_of("length", std::to_string(item.value.nbytes()))}) {
    text += bytes(tensor::kExternalData, entry);
  }
  text += integer(tensor::kDataLocation, tensor::kExternal);
  return {bytes(graph_field::kInitializer, text)};
}

// Shapes, scales and the like stay in the model: programs read them before they open another file.
bool stays_inside(const Initializer& item) {
  return item.value.scalar_type() == at::kLong || item.value.numel() == 1;
}

// The initialisers of a file of their own, which is written here; each begins on a page.
std::vector<Piece> write_external(const Graph& graph, const std::string& path, int64_t& written) {
  constexpr int64_t kPage = 4096;
  const auto name = std::filesystem::path(path).filename().string();
  AtomicFile file(path);
  std::vector<Piece> pieces;
  for (const auto& item : graph.initializers) {
    if (stays_inside(item)) {
      pieces.push_back(inline_piece(item));
      continue;
    }
    const auto padding = (kPage - written % kPage) % kPage;
    file.write(std::string(static_cast<size_t>(padding), '\0'));
    written += padding;
    pieces.push_back(external_piece(item, name, written));
    file.write(raw_bytes(item.value));
    written += static_cast<int64_t>(item.value.nbytes());
  }
  file.commit();
  return pieces;
}

int64_t initializer_bytes(const Graph& graph) {
  int64_t total = 0;
  for (const auto& item : graph.initializers) total += static_cast<int64_t>(item.value.nbytes());
  return total;
}

// What of a GraphProto goes before and behind the initialisers.
std::string nodes_of(const Graph& graph) {
  std::string text;
  for (const auto& item : graph.nodes) text += bytes(graph_field::kNode, encoded(item));
  return text + bytes(graph_field::kName, "fovea");
}

std::string ports_of(const Graph& graph) {
  std::string text;
  for (const auto& port : graph.inputs) text += bytes(graph_field::kInput, encoded(port));
  for (const auto& port : graph.outputs) text += bytes(graph_field::kOutput, encoded(port));
  return text;
}

std::string model_head(const FileOptions& options) {
  auto text = integer(model_field::kIrVersion, kIrVersion) +
              bytes(model_field::kProducer, "fovea") +
              bytes(model_field::kProducerVersion, FOVEA_VERSION) +
              bytes(model_field::kOpset, bytes(1, "") + integer(2, kOpset));
  for (const auto& [key, value] : options.metadata) {
    text += bytes(model_field::kMetadata, pair_of(key, value));
  }
  return text;
}

}  // namespace

WrittenFile write_file(const std::string& path, const Graph& graph, const FileOptions& options) {
  WrittenFile written;
  std::vector<Piece> pieces = {{nodes_of(graph)}};
  if (initializer_bytes(graph) > options.max_inline_bytes) {
    written.data_file = path + ".data";
    for (auto& piece : write_external(graph, written.data_file, written.bytes)) {
      pieces.push_back(std::move(piece));
    }
  } else {
    for (const auto& item : graph.initializers) pieces.push_back(inline_piece(item));
  }
  pieces.push_back({ports_of(graph)});
  size_t graph_bytes = 0;
  for (const auto& piece : pieces) graph_bytes += piece.text.size() + piece.raw.size();
  const auto head = model_head(options) + protobuf::key(model_field::kGraph, protobuf::kBytes) +
                    protobuf::varint(graph_bytes);
  AtomicFile file(path);
  file.write(head);
  for (const auto& piece : pieces) {
    file.write(piece.text);
    file.write(piece.raw);
  }
  file.commit();
  written.bytes += static_cast<int64_t>(head.size() + graph_bytes);
  return written;
}

}  // namespace fovea::onnx
