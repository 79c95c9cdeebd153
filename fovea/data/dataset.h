// A data set: indexed access to undecoded-or-decoded samples, thread-safe, free of randomness.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/order/tile_windows.h"
#include "fovea/data/sample.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual SampleForm form() const { return SampleForm::kImage; }
  // Whether samples carry a mask; num_classes then counts the classes of voxels.
  virtual bool has_masks() const { return false; }
  // Reads sample `index` into what it is nearest to as it is stored: an EncodedImage from image
  // files, a StoredImage from mapped pixels, else an Image; or a Volume. Called from many threads
  // at once. `sample` is reused, so buffers are kept. Throws DataError naming the file and what is
  // wrong with it.
  virtual void read(int64_t index, Sample& sample) const = 0;
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
  // As read, but only `region`, with its mask, where that costs about the region's own bytes.
  // False: it would cost as much as the whole, and nothing is read. Throws DataError also where the
  // sample has not the size region.whole any more.
  virtual bool read_region(int64_t /*index*/, const VolumeRegion& /*region*/,
                           Sample& /*sample*/) const {
    return false;
  }
  // Of a data set of tiles, how they are shuffled.
  virtual TileWindows tile_windows() const { return {}; }
  // "train-images-idx3-ubyte.gz[17]" or the path of a file: for messages and reports.
  virtual std::string describe(int64_t index) const = 0;
};

// Reads sample `index` and decodes it: afterwards it is made of an Image or of a Volume. Throws
// DataError naming the sample.
void read_decoded(const Dataset& dataset, int64_t index, Sample& sample);

// The message of `error` with the name of sample `index`, which was read when it was thrown, in
// front where it does not stand there already.
std::string named_message(const Dataset& dataset, int64_t index, const DataError& error);

// Throws DataError where sample `index`, of this size, is not what `region` was cut from.
void check_whole(const Dataset& dataset, int64_t index, const VolumeSize& size,
                 const VolumeRegion& region);

}  // namespace fovea::data
