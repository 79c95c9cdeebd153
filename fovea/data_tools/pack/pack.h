// Packing: any data set of images or volumes into shards that are read fast, as Fovea's packed
// format or, images, as WebDataset tars.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "fovea/data/dataset.h"
#include "fovea/data/volume/packed_volume.h"

namespace fovea::data {

struct PackOptions {
  std::string out;            // folder; made where it is not there
  std::string to = "packed";  // or "wds"
  // Images whose longer side is above this are shrunk to it (bicubic, antialiased) and stored as
  // JPEG of `quality`; 0: all are kept as they are.
  int64_t max_side = 0;
  int64_t quality = 90;
  bool raw = false;            // pixels instead of image files; packed only
  VolumePacking volumes = {};  // how volumes are stored
  uint64_t shard_bytes = uint64_t{256} << 20;
  std::optional<uint64_t> shuffle_seed;  // another order of the samples; nothing: as they come
  int64_t threads = 0;                   // 0: one for each core
  std::function<void(int64_t done, int64_t total)> progress;
};

struct PackReport {
  int64_t samples = 0;
  int64_t resumed = 0;  // of those, packed by an earlier call
  int64_t shards = 0;
  uint64_t bytes = 0;
};

// Writes `dataset` into options.out. Every sample is decoded on the way, so that a damaged one is
// found (DataError naming it) and statistics are known. A call that was stopped at any moment, also
// by a kill or a power cut, goes on where the last whole shard ended, when it is made again with
// the same data set and options; files under their final names are always whole, and manifest.json
// (packed) or dataset.json (wds) comes last. The bytes written depend on data set and options only.
// Throws ConfigError: options that cannot be, images with masks, a folder that holds
// something else or was begun with other options, another process packing there.
PackReport pack_dataset(const Dataset& dataset, const PackOptions& options);

}  // namespace fovea::data
