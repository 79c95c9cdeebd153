// Tensors as they come: a datatype of the protocol, a shape, and bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::serve {

struct InputTensor {
  std::string name;
  std::string datatype;  // "FP32"
  std::vector<int64_t> shape;
  // Little-endian and dense, as many as the shape says; of BYTES each element with its length, 4
  // bytes, in front.
  std::string_view bytes;
  std::shared_ptr<const std::string> owner;  // of `bytes`
};

// Throws StatusError (400): more or fewer bytes than datatype and shape say, or a datatype or shape
// that there is not. where: of the tensor, for the message.
void check_size(const std::string& where, const InputTensor& tensor);

// The elements of a BYTES tensor. Throws StatusError where they are not as many as the shape says.
std::vector<std::string_view> bytes_elements(const InputTensor& tensor);

// Bytes of an element; 0: BYTES, whose elements differ; nothing: no such datatype.
std::optional<int64_t> datatype_bytes(std::string_view datatype);

// "[1, 3, 224, 224]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace fovea::serve
