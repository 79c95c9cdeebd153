// Values of patches, back over the whole image.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <optional>
#include <type_traits>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/leaf_sweep.h"
#include "fovea/data/adaptive/sequence_file.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/byte_source.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/safetensors.h"

namespace fovea::data {
namespace {

// One tensor of a safetensors file, read at offsets: what is mapped would count as memory.
class TensorReader {
 public:
  TensorReader(const std::string& path, const std::string& tensor)
      : header_(SafetensorsFile::open(path)), file_(path) {
    std::vector<std::string> names;
    for (const auto& entry : header_.entries()) {
      names.push_back(entry.name);
      if (tensor.empty() ? header_.entries().size() == 1 : entry.name == tensor) entry_ = &entry;
    }
    if (entry_ == nullptr) {
      fail<DataError>("{}: holds {}; expected {}", file_.name(), fmt::join(names, ", "),
                      tensor.empty() ? "one tensor, or the name of one of these" : tensor);
    }
    const auto* start = std::as_bytes(header_.mapping()->bytes()).data();
    offset_ = static_cast<uint64_t>(entry_->bytes.data() - start);
  }

  const std::string& name() const { return file_.name(); }
  const std::string& dtype() const { return entry_->dtype; }
  const std::vector<int64_t>& shape() const { return entry_->shape; }
  void check_unchanged() const { header_.check_unchanged(); }

  template <class T>
  void read(int64_t first, std::span<T> out) const {
    file_.read(offset_ + static_cast<uint64_t>(first) * sizeof(T),
               {reinterpret_cast<uint8_t*>(out.data()), out.size_bytes()});
  }

 private:
  SafetensorsFile header_;
  FileSource file_;
  const SafetensorsEntry* entry_ = nullptr;
  uint64_t offset_ = 0;  // of the tensor in the file
};

// Side of a patch of `count` values, or 0: no square.
int64_t side_of(int64_t count) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(count))));
  return side * side == count && side <= 1024 ? side : 0;
}

[[noreturn]] void fail_for_form(const TensorReader& values, const PatchSequence& sequence) {
  fail<DataError>(
      "{}: {} [{}]; expected, for {} patches along {} tree(s), F32 [C, {}, p * p], or along one "
      "tree F32 [{}, C] or U8, I32 or I64 [{}] or [{}, p * p]",
      values.name(), values.dtype(), fmt::join(values.shape(), ", "), sequence.fixed_length,
      sequence.trees.size(), sequence.fixed_length, sequence.fixed_length, sequence.fixed_length,
      sequence.fixed_length);
}

class PredictionMap {
 public:
  PredictionMap(const SavedSequence& saved, const TensorReader& values, const std::string& tiff,
                const PredictionOptions& options)
      : saved_(saved), values_(values), tiff_(tiff), options_(options) {}

  void write() {
    const auto& shape = values_.shape();
    const bool is_float = values_.dtype() == "F32";
    const bool is_class =
        values_.dtype() == "U8" || values_.dtype() == "I32" || values_.dtype() == "I64";
    const int64_t length = saved_.sequence.fixed_length;
    const bool is_one_tree = saved_.sequence.trees.size() == 1;
    if (is_float && shape.size() == 3 && shape[1] == length && side_of(shape[2]) > 0 &&
        shape[0] >= 1 && shape[0] <= kMaxRegionChannels &&
        (is_one_tree || static_cast<size_t>(shape[0]) == saved_.sequence.trees.size())) {
      const int64_t p = side_of(shape[2]);
      write_maps<float>(shape[0], p, resample_rules(false, saved_.upstream_compatible),
                        [=](int64_t c, int64_t leaf) { return (c * length + leaf) * p * p; });
    } else if (is_one_tree && is_float && shape.size() == 2 && shape[0] == length &&
               shape[1] >= 1 && shape[1] <= kMaxRegionChannels) {
      write_maps<float>(shape[1], 1, std::nullopt,
                        [&](int64_t c, int64_t leaf) { return leaf * shape[1] + c; });
    } else if (is_one_tree && is_class && !shape.empty() && shape.size() <= 2 &&
               shape[0] == length && (shape.size() == 1 || side_of(shape[1]) > 0)) {
      const int64_t p = shape.size() == 1 ? 1 : side_of(shape[1]);
      write_maps<int32_t>(1, p, std::nullopt, [=](int64_t, int64_t leaf) { return leaf * p * p; });
    } else {
      fail_for_form(values_, saved_.sequence);
    }
  }

 private:
  ImageSize size() const {
    const VolumeSize& size = saved_.sequence.trees[0].size;
    return {size.height, size.width};
  }

  // The maps of all channels, channels interleaved, a band of rows at a time. rules: as LeafRows;
  // first_of(channel, leaf): where the values of a patch stand in the tensor.
  template <class T, class FirstOf>
  void write_maps(int64_t channels, int64_t p, std::optional<ResampleRules> rules,
                  const FirstOf& first_of) {
    const auto& trees = saved_.sequence.trees;
    std::deque<patching::LeafRows<T>> maps;
    for (int64_t c = 0; c < channels; ++c) {
      maps.emplace_back(trees[static_cast<size_t>(trees.size() == 1 ? 0 : c)], p, rules,
                        [this, &first_of, c](int64_t leaf, std::span<T> token) {
                          read(first_of(c, leaf), token);
                        });
    }
    ScalarType type = std::is_same_v<T, float> ? ScalarType::kFloat32 : ScalarType::kInt32;
    if (values_.dtype() == "U8") type = ScalarType::kUint8;
    TiffWriter writer(tiff_, {size(), channels, type, options_.compression});
    const int64_t row_bytes = size().width * channels * static_cast<int64_t>(sizeof(T));
    const int64_t band =
        std::clamp<int64_t>(options_.memory.band_bytes / row_bytes, 1, size().height);
    std::vector<T> plane(static_cast<size_t>(band * size().width));
    std::vector<uint8_t> rows;
    for (int64_t y = 0; y < size().height; y += band) {
      const int64_t count = std::min(band, size().height - y);
      const int64_t pixels = count * size().width, bytes = bytes_of(type);
      rows.resize(static_cast<size_t>(pixels * channels * bytes));
      for (int64_t c = 0; c < channels; ++c) {
        maps[static_cast<size_t>(c)].read(y, count, plane.data());
        // A class in a byte is the first of its number's.
        for (int64_t i = 0; i < pixels; ++i) {
          std::memcpy(rows.data() + (i * channels + c) * bytes, &plane[static_cast<size_t>(i)],
                      static_cast<size_t>(bytes));
        }
      }
      writer.write_rows(rows, count);
    }
    values_.check_unchanged();
    writer.finish();
  }

  void read(int64_t first, std::span<float> out) const { values_.read(first, out); }

  void read(int64_t first, std::span<int32_t> out) const {
    if (values_.dtype() == "I32") {
      values_.read(first, out);
    } else if (values_.dtype() == "U8") {
      std::vector<uint8_t> bytes(out.size());
      values_.read(first, std::span<uint8_t>(bytes));
      std::copy(bytes.begin(), bytes.end(), out.begin());
    } else {
      std::vector<int64_t> numbers(out.size());
      values_.read(first, std::span<int64_t>(numbers));
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<int32_t>(numbers[i]);
        if (out[i] == numbers[i]) continue;
        fail<DataError>("{}: class {}; expected classes within 32 bits", values_.name(),
                        numbers[i]);
      }
    }
  }

  const SavedSequence& saved_;
  const TensorReader& values_;
  std::string tiff_;
  const PredictionOptions& options_;
};

}  // namespace

void write_prediction(const std::string& sequence, const std::string& values,
                      const std::string& tiff, const PredictionOptions& options) {
  const auto saved = load_sequence(sequence);
  const TensorReader reader(values, options.tensor);
  PredictionMap(saved, reader, tiff, options).write();
}

}  // namespace fovea::data
