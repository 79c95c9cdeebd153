// Small files and data sets that the tests of data/ write or make up.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/dataset.h"
#include "fovea/data/image/image_view.h"
#include "fovea/files/safetensors.h"
#include "tests/support/temp_dir.h"

namespace fovea::data::testing {

using support::TempDir;

// An array of tests/golden/<file>.safetensors, made by a maker in tools/golden/.
struct GoldenArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  template <class T>
  std::vector<T> values() const {
    std::vector<T> result(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  // [H, W, C] bytes.
  Image image() const { return {shape.at(0), shape.at(1), shape.at(2), bytes}; }
};

// All arrays of tests/golden/<file>.safetensors; read once, by any thread.
inline const std::map<std::string, GoldenArray>& golden_arrays(const std::string& file = "data") {
  static std::mutex lock;
  static std::map<std::string, std::map<std::string, GoldenArray>> files;
  const std::lock_guard guard(lock);
  const auto [found, is_new] = files.try_emplace(file);
  if (is_new) {
    const auto opened =
        SafetensorsFile::open(FOVEA_SOURCE_DIR "/tests/golden/" + file + ".safetensors");
    for (const auto& entry : opened.entries()) {
      const auto* first = reinterpret_cast<const uint8_t*>(entry.bytes.data());
      found->second[entry.name] = {entry.shape, {first, first + entry.bytes.size()}};
    }
  }
  return found->second;
}

inline const GoldenArray& golden(const std::string& name, const std::string& file = "data") {
  return golden_arrays(file).at(name);
}

// What a test of augmentations draws from.
inline RandomStream test_stream(uint64_t sample = 0) {
  return RandomStream(philox_key(1, "test"), sample);
}

// Names that start with `prefix`, split at the dots: {"resize", "rgb", "bicubic", "20x20"}.
inline std::vector<std::vector<std::string>> golden_names(const std::string& prefix,
                                                          const std::string& file = "data") {
  std::vector<std::vector<std::string>> names;
  for (const auto& [name, array] : golden_arrays(file)) {
    if (name.rfind(prefix + ".", 0) != 0) continue;
    std::vector<std::string> parts(1);
    for (const char c : name) {
      if (c == '.') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    names.push_back(parts);
  }
  return names;
}

// The numbers of "23x31".
inline std::vector<int64_t> sizes_in(const std::string& text) {
  const size_t cross = text.find('x');
  return {std::stoll(text.substr(0, cross)), std::stoll(text.substr(cross + 1))};
}

// `bytes` as a gzip file.
inline std::vector<uint8_t> gzip(const std::vector<uint8_t>& bytes) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::vector<uint8_t> out(deflateBound(&stream, bytes.size()) + 32);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<unsigned>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// An IDX file of unsigned bytes: header, then `data`.
inline std::vector<uint8_t> idx_bytes(const std::vector<uint32_t>& sizes,
                                      const std::vector<uint8_t>& data) {
  std::vector<uint8_t> bytes = {0, 0, 8, static_cast<uint8_t>(sizes.size())};
  for (const uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(size >> shift));
  }
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

// The bytes that a view looks at, row after row.
inline std::vector<uint8_t> pixels_of(const ImageView& view) {
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < view.height; ++y) {
    pixels.insert(pixels.end(), view.row(y), view.row(y) + view.width * view.channels);
  }
  return pixels;
}

// The message of the Error of type E that `f` throws; fails the test if it throws none.
template <class E = DataError, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

// Images whose pixels tell which sample they are of; samples in `broken` cannot be read.
class FakeDataset : public Dataset {
 public:
  FakeDataset(int64_t size, int64_t side, std::vector<int64_t> broken = {})
      : size_(size), side_(side), broken_(std::move(broken)) {}
  int64_t size() const override { return size_; }
  void read(int64_t index, Sample& sample) const override {
    for (const int64_t broken : broken_) {
      if (index == broken) fail<DataError>("this one is damaged");
    }
    sample.become<Image>() = {side_, side_, 1, {}};
    for (int64_t i = 0; i < side_ * side_; ++i) {
      sample.image().pixels.push_back(static_cast<uint8_t>(index * 7 + i));
    }
    sample.label = index % 10;
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return 10; }
  std::string describe(int64_t index) const override { return fmt::format("fake[{}]", index); }

 private:
  int64_t size_;
  int64_t side_;
  std::vector<int64_t> broken_;
  std::vector<std::string> class_names_;
};

}  // namespace fovea::data::testing
