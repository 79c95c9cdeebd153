#include "fovea/data/dataset.h"

#include <algorithm>

#include "fovea/core/parallel_for.h"
#include "fovea/files/mapped_file.h"

namespace fovea::data {
namespace {

constexpr int64_t kScanThreads = 8;  // they wait for the disk most of the time
constexpr int64_t kSamplesAThread = 64;

}  // namespace

VolumeSize Dataset::size_of(int64_t index) const {
  Sample sample;
  read_decoded(*this, index, sample);
  return sample.size();
}

std::vector<VolumeSize> Dataset::sizes(int64_t first, int64_t count) const {
  std::vector<VolumeSize> found(static_cast<size_t>(count));
  const int64_t threads = std::clamp<int64_t>(count / kSamplesAThread, 1, kScanThreads);
  parallel_for(count, threads, [&](int64_t i) {
    try {
      found[static_cast<size_t>(i)] = size_of(first + i);
    } catch (const DataError& error) {
      throw DataError(named_message(*this, first + i, error));
    }
  });
  return found;
}

int64_t Dataset::channels_of(int64_t index) const {
  Sample sample;
  read_decoded(*this, index, sample);
  return sample.channels();
}

void read_decoded(const Dataset& dataset, int64_t index, Sample& sample) {
  const MappedReads reads;
  dataset.read(index, sample);
  try {
    decode(sample);
  } catch (const DataError& error) {
    throw DataError(named_message(dataset, index, error));
  }
  reads.check([&] { return dataset.describe(index); });
}

std::string named_message(const Dataset& dataset, int64_t index, const DataError& error) {
  const std::string name = dataset.describe(index);
  const std::string message = error.what();
  return message.find(name) != std::string::npos ? message : name + ": " + message;
}

void check_whole(const Dataset& dataset, int64_t index, const VolumeSize& size,
                 const VolumeRegion& region) {
  const VolumeSize& whole = region.whole;
  if (size == whole) return;
  fail<DataError>(
      "{}: {} x {} x {} voxels, but {} x {} x {} when the data set was opened; files must not "
      "change during a run",
      dataset.describe(index), size.depth, size.height, size.width, whole.depth, whole.height,
      whole.width);
}

}  // namespace fovea::data
