// Who writes the shards of a packing, one sample after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/archive/packed_format.h"
#include "fovea/data/dataset.h"

namespace fovea::data {

struct PackedSample {
  std::vector<uint8_t> bytes;
  PackedEntry entry;  // offset, checksum and name_end are the writer's
  std::string name;
  PixelSums sums;
  uint64_t checked_bytes = 0;  // that its checksum is of: the first; 0: all
};

// Shards that are whole or not there. Calls: resume, then for each shard begin, add..., finish;
// then complete.
class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  // Counts the samples in whole shards that are there already. Throws DataError where one is
  // damaged.
  virtual int64_t resume() = 0;
  virtual void begin_shard() = 0;
  // Bytes of the shard that is open, with one more sample of `bytes`.
  virtual uint64_t bytes_with(uint64_t bytes) const = 0;
  virtual void add(const PackedSample& sample) = 0;
  virtual void finish_shard() = 0;
  // What says that all is there.
  virtual void complete(const Dataset& dataset) = 0;
  virtual int64_t num_shards() const = 0;
  virtual uint64_t num_bytes() const = 0;
};

std::unique_ptr<ShardWriter> make_packed_writer(const std::string& folder);
std::unique_ptr<ShardWriter> make_wds_writer(const std::string& folder);

// The file that `complete` writes.
const char* completion_file(const std::string& to);

}  // namespace fovea::data
