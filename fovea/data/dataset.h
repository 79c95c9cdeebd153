// A data set: indexed access to undecoded-or-decoded samples, thread-safe, free of randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/order/tile_windows.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// Pixels as they are stored: unsigned bytes, interleaved channels (H, W, C).
struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  std::vector<uint8_t> pixels;  // [H, W, C]
};

// What a data set's samples are made of.
enum class SampleForm { kImage, kVolume };

// An image file that is not decoded yet: a JPEG of which only a crop is wanted is decoded in part.
struct EncodedImage {
  std::span<const uint8_t> bytes;  // empty: there is none
  std::vector<uint8_t> buffer;     // memory for `bytes`, where the data set does not map its files
};

// An image in memory that belongs to the data set, such as a mapped file: it need not be copied.
struct StoredImage {
  std::span<const uint8_t> pixels;  // [H, W, C]; empty: there is none
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
};

struct Sample {
  Image image;                // where the form is kImage, and `encoded` and `stored` are empty
  EncodedImage encoded;       // set by read_undecoded and read_in_place only
  StoredImage stored;         // set by read_in_place only
  Volume volume;              // where the form is kVolume
  int64_t label = -1;         // class of the whole; -1: no label
  LabelMap mask;              // empty where the data set has none; else as large as the sample
  std::vector<Point> points;  // landmarks, moved with the pixels by every transform of geometry
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual SampleForm form() const { return SampleForm::kImage; }
  // Whether samples carry a mask; num_classes then counts the classes of voxels.
  virtual bool has_masks() const { return false; }
  // Reads and decodes sample `index`; called from many threads at once. `sample` is reused, so
  // buffers are kept. Throws DataError naming the file and what is wrong with it.
  virtual void read(int64_t index, Sample& sample) const = 0;
  // The same, but formats made of image files may leave sample.image alone and set sample.encoded,
  // so that the caller decodes what it needs.
  virtual void read_undecoded(int64_t index, Sample& sample) const {
    sample.encoded.bytes = {};
    read(index, sample);
  }
  // As read_undecoded, but pixels that lie in memory as they are stored may stay there: then
  // sample.stored looks at them, and sample.image is left alone.
  virtual void read_in_place(int64_t index, Sample& sample) const {
    sample.stored = {};
    read_undecoded(index, sample);
  }
  // Empty where the format does not name its classes.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual int64_t num_classes() const = 0;
  // [D, H, W] of sample `index` as stored, images with depth 1; formats that know it from a header
  // read no more than that. As thread-safe and with the same errors as read, which the default
  // uses.
  virtual VolumeSize size_of(int64_t index) const;
  // Of `count` samples from `first` on, by several threads. The error is that of the first sample
  // that has one, and names it.
  virtual std::vector<VolumeSize> sizes(int64_t first, int64_t count) const;
  // Channels of sample `index`, of volumes, as size_of.
  virtual int64_t channels_of(int64_t index) const;
  // Whether read_region costs about the bytes of its region.
  virtual bool has_regions(int64_t /*index*/) const { return false; }
  // As read, but of a volume only `region`, with its mask. Throws DataError also where the sample
  // has not the size region.whole any more.
  virtual void read_region(int64_t index, const VolumeRegion& region, Sample& sample) const;
  // Of a data set of tiles, how they are shuffled.
  virtual TileWindows tile_windows() const { return {}; }
  // "train-images-idx3-ubyte.gz[17]" or the path of a file: for messages and reports.
  virtual std::string describe(int64_t index) const = 0;
};

// The message of `error` with the name of sample `index`, which was read when it was thrown, in
// front where it does not stand there already.
std::string named_message(const Dataset& dataset, int64_t index, const DataError& error);

// Throws DataError where sample `index`, of this size, is not what `region` was cut from.
void check_whole(const Dataset& dataset, int64_t index, const VolumeSize& size,
                 const VolumeRegion& region);

}  // namespace fovea::data
