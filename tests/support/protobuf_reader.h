// A small reader of the protocol-buffer wire format: fields by number, in the order of the file.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::support {

// One message. Throws std::runtime_error for bytes that are none.
class ProtobufMessage {
 public:
  explicit ProtobufMessage(std::string_view bytes) {
    while (!bytes.empty()) read_field(bytes);
  }

  std::vector<std::string> texts(uint64_t field) const {
    const auto found = texts_.find(field);
    return found == texts_.end() ? std::vector<std::string>{} : found->second;
  }
  std::string text(uint64_t field) const {
    const auto all = texts(field);
    return all.empty() ? "" : all.back();
  }
  std::vector<int64_t> integers(uint64_t field) const {
    const auto found = integers_.find(field);
    return found == integers_.end() ? std::vector<int64_t>{} : found->second;
  }
  int64_t integer(uint64_t field, int64_t otherwise = 0) const {
    const auto all = integers(field);
    return all.empty() ? otherwise : all.back();
  }
  float real(uint64_t field) const { return reals_.at(field); }
  bool has(uint64_t field) const {
    return texts_.contains(field) || integers_.contains(field) || reals_.contains(field);
  }

 private:
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes.empty()) throw std::runtime_error("a number is cut off");
      const auto byte = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a number of more than 64 bits");
  }
  void read_field(std::string_view& bytes) {
    const auto key = varint(bytes);
    const auto field = key >> 3;
    switch (key & 7) {
      case 0:
        integers_[field].push_back(static_cast<int64_t>(varint(bytes)));
        return;
      case 2: {
        const auto size = varint(bytes);
        if (size > bytes.size()) throw std::runtime_error("a text is cut off");
        texts_[field].emplace_back(bytes.substr(0, size));
        bytes.remove_prefix(size);
        return;
      }
      case 5: {
        if (bytes.size() < 4) throw std::runtime_error("a real is cut off");
        float value = 0;
        std::memcpy(&value, bytes.data(), 4);
        reals_[field] = value;
        bytes.remove_prefix(4);
        return;
      }
      default:
        throw std::runtime_error("a kind of field that ONNX files do not have");
    }
  }

  std::map<uint64_t, std::vector<std::string>> texts_;
  std::map<uint64_t, std::vector<int64_t>> integers_;
  std::map<uint64_t, float> reals_;
};

}  // namespace fovea::support
