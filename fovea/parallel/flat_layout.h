// Who has which part of a flat buffer, in elements: plain numbers.
#pragma once

#include <cstdint>

namespace fovea::parallel {

// A buffer of equal shards, each of which is equal parts again: one, or as many as there are copies
// of the shard. Parts follow each other in the order of the shards.
struct FlatLayout {
  int64_t num_shards = 1;
  int64_t parts_of_shard = 1;
  int64_t part_size = 0;

  // The smallest one that has room for so many elements in parts of a multiple of `alignment`.
  static FlatLayout of(int64_t num_elements, int64_t num_shards, int64_t parts_of_shard,
                       int64_t alignment) {
    const int64_t unit = alignment * num_shards * parts_of_shard;
    return {num_shards, parts_of_shard, (num_elements + unit - 1) / unit * alignment};
  }

  int64_t shard_size() const { return part_size * parts_of_shard; }
  int64_t size() const { return shard_size() * num_shards; }
  int64_t shard_begin(int64_t shard) const { return shard * shard_size(); }
  int64_t part_begin(int64_t shard, int64_t part) const {
    return shard_begin(shard) + part * part_size;
  }
};

}  // namespace fovea::parallel
