// One sample of a data set: what it is made of, its label and its mask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// Pixels as they are stored: unsigned bytes, interleaved channels (H, W, C).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [H, W, C]
};

// An image file that is not decoded yet: a JPEG of which only a crop is wanted is decoded in part.
struct EncodedImage {
  std::span<const uint8_t> bytes;
  std::vector<uint8_t> buffer;  // memory for `bytes`, where the data set does not map its files
};

// An image in memory that belongs to the data set, such as a mapped file: it need not be copied.
struct StoredImage {
  std::span<const uint8_t> pixels;  // [H, W, C]
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
};

// What a data set's samples are made of.
enum class SampleForm { kImage, kVolume };

// Made of one of Image, EncodedImage, StoredImage and Volume; at first of an empty Image. A variant
// that keeps the buffers of the others, so that reading sample after sample takes no memory.
class Sample {
 public:
  template <class T>
  bool is() const {
    return kind_ == kind_of<T>();
  }
  // What it is made of, which must be a T.
  template <class T>
  T& as() {
    check_is<T>();
    return std::get<T>(parts_);
  }
  template <class T>
  const T& as() const {
    check_is<T>();
    return std::get<T>(parts_);
  }
  // From now on it is made of a T: the one that it was the last time, to be filled. What views of
  // its other parts look at stays in memory.
  template <class T>
  T& become() {
    kind_ = kind_of<T>();
    return std::get<T>(parts_);
  }

  Image& image() { return as<Image>(); }
  const Image& image() const { return as<Image>(); }
  Volume& volume() { return as<Volume>(); }
  const Volume& volume() const { return as<Volume>(); }

  // [D, H, W] of what it is made of, images with depth 1, and its channels; not of an EncodedImage.
  VolumeSize size() const;
  int64_t channels() const;

  int64_t label = -1;  // class of the whole; -1: no label
  LabelMap mask;       // empty where the data set has none; else as large as the sample
  // Set by who asks for the sample: what a data set draws from whose samples are other ones in each
  // epoch; empty: they are those of their number alone.
  std::optional<RandomStream> random = {};

 private:
  using Parts = std::tuple<Image, EncodedImage, StoredImage, Volume>;

  template <class T, size_t i = 0>
  static constexpr size_t kind_of() {
    if constexpr (std::is_same_v<T, std::tuple_element_t<i, Parts>>) {
      return i;
    } else {
      return kind_of<T, i + 1>();
    }
  }
  template <class T>
  void check_is() const {
    FOVEA_CHECK(is<T>(), "a sample of kind {}, asked for as kind {}", kind_, kind_of<T>());
  }

  Parts parts_;
  size_t kind_ = 0;
};

// An EncodedImage and a StoredImage become an Image, by decoding and by copying. Throws DataError
// without the name of the sample: no image, damaged, too large.
void decode(Sample& sample);

}  // namespace fovea::data
