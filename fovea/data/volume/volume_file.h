// Volumes opened by their headers: what they are costs a header, and their numbers are read when
// they are wanted, all of them or those of a region.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fovea/data/volume/stored_volume.h"
#include "fovea/data/volume/volume.h"
#include "fovea/files/byte_source.h"

namespace fovea::data {

// Of one thread.
class VolumeFile {
 public:
  virtual ~VolumeFile() = default;
  VolumeFile(const VolumeFile&) = delete;
  VolumeFile& operator=(const VolumeFile&) = delete;

  // All that a StoredVolume says but the numbers: `bytes` is empty.
  virtual StoredVolume header() = 0;
  // Throws DataError: the file is truncated or damaged, the disk does not answer.
  virtual StoredVolume read() = 0;
  // The numbers of `region`, which is the result's size; with the same errors. A format that knows
  // no way to them but through the whole file, as this one does, reads that.
  virtual StoredVolume read_region(const VolumeRegion& region);
  // Whether it costs the region's own bytes.
  virtual bool has_regions() const { return false; }

 protected:
  VolumeFile() = default;
};

// How a set of files is opened. `frame`: of a file of several; nothing: all of them, as channels.
using OpenVolume = std::function<std::unique_ptr<VolumeFile>(const std::string& path,
                                                             std::optional<int64_t> frame)>;

// Numbers that lie in a file as they are, from byte `offset` on: `layout`'s strides say where.
class ArrayFile : public VolumeFile {
 public:
  ArrayFile(std::shared_ptr<const ByteSource> file, StoredVolume layout, uint64_t offset);

  StoredVolume header() override { return layout_; }
  StoredVolume read() override;
  // Reads the region's rows, and what lies between two of them where that is less than a page.
  StoredVolume read_region(const VolumeRegion& region) override;
  bool has_regions() const override { return true; }

 private:
  std::shared_ptr<const ByteSource> file_;
  StoredVolume layout_;
  uint64_t offset_;
};

}  // namespace fovea::data
