#include "fovea/serve/protocol/input_tensor.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstring>
#include <utility>

#include "fovea/core/printable.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors come in little-endian order");

// Throws where there is no such number of elements.
int64_t elements_of(const std::string& where, const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const int64_t side : shape) {
    if (side < 0 || (side > 0 && count > kMost / side)) {
      fail_with(400, "{}: a shape of {}; expected sides from 0, of at most {} elements", where,
                shape_text(shape), kMost);
    }
    count *= side;
  }
  return count;
}

}  // namespace

void check_size(const std::string& where, const InputTensor& tensor) {
  const int64_t count = elements_of(where, tensor.shape);
  const auto size = datatype_bytes(tensor.datatype);
  if (!size) {
    fail_with(400, "{}: datatype '{}'; expected FP32, BF16 or BYTES", where,
              printable_start(tensor.datatype));
  }
  if (*size == 0) {
    bytes_elements(tensor);
    return;
  }
  if (tensor.bytes.size() == static_cast<uint64_t>(count) * static_cast<uint64_t>(*size)) return;
  fail_with(400, "{}: {} bytes of data; expected {}: {} elements ({}) of {} bytes", where,
            tensor.bytes.size(), count * *size, count, shape_text(tensor.shape), *size);
}

std::optional<int64_t> datatype_bytes(std::string_view datatype) {
  static constexpr std::pair<std::string_view, int64_t> kSizes[] = {
      {"BOOL", 1}, {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4}, {"UINT64", 8},
      {"INT8", 1}, {"INT16", 2}, {"INT32", 4},  {"INT64", 8},  {"FP16", 2},
      {"FP32", 4}, {"FP64", 8},  {"BF16", 2},   {"BYTES", 0}};
  for (const auto& [name, size] : kSizes) {
    if (name == datatype) return size;
  }
  return std::nullopt;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<std::string_view> bytes_elements(const InputTensor& tensor) {
  const auto where = fmt::format("input '{}'", printable_start(tensor.name));
  const int64_t count = elements_of(where, tensor.shape);
  std::vector<std::string_view> elements;
  auto rest = tensor.bytes;
  while (!rest.empty()) {
    uint32_t size = 0;
    if (rest.size() >= sizeof(size)) std::memcpy(&size, rest.data(), sizeof(size));
    if (rest.size() < sizeof(size) || rest.size() - sizeof(size) < size) {
      fail_with(400,
                "{}: element {} is cut short: {} bytes are left for a length of 4 bytes and {} "
                "bytes of data",
                where, elements.size(), rest.size(), size);
    }
    elements.push_back(rest.substr(sizeof(size), size));
    rest.remove_prefix(sizeof(size) + size);
    if (static_cast<int64_t>(elements.size()) > count) break;
  }
  if (static_cast<int64_t>(elements.size()) == count) return elements;
  fail_with(
      400, "{}: {} elements in the data; expected {}, as the shape {} says", where,
      static_cast<int64_t>(elements.size()) > count ? "more" : std::to_string(elements.size()),
      count, shape_text(tensor.shape));
}

}  // namespace fovea::serve
