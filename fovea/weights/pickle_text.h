// The few opcodes of pickle's protocol 2 that weights are written with.
#pragma once

#include <ATen/core/Tensor.h>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace fovea::weights {

class PickleText {
 public:
  std::string take() { return std::move(text_); }

  void raw(std::string_view opcodes) { text_ += opcodes; }
  void little(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
  }
  // A class or function, by its name.
  void name(std::string_view module, std::string_view name) {
    text_ += 'c';
    text_ += module;
    text_ += '\n';
    text_ += name;
    text_ += '\n';
  }
  void text(std::string_view value) {
    text_ += 'X';
    little(value.size(), 4);
    text_ += value;
  }
  void integer(int64_t value) {
    text_ += '\x8a';  // LONG1
    text_ += '\x08';
    little(static_cast<uint64_t>(value), 8);
  }
  void truth(bool value) { text_ += value ? '\x88' : '\x89'; }
  void none() { text_ += 'N'; }
  void number(double value) {
    text_ += 'G';  // the bytes of largest weight first
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 7; i >= 0; --i) text_ += static_cast<char>(bits >> (8 * i));
  }
  void tuple(at::IntArrayRef values) {
    text_ += '(';
    for (const auto value : values) integer(value);
    text_ += 't';
  }

 private:
  std::string text_;
};

}  // namespace fovea::weights
