// A data set in Fovea's packed format (fovea data pack): one read a sample, no walk over folders.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct PackedConfig {
  static constexpr std::string_view kName = "packed";
  static constexpr std::string_view kSample = "an image or volume";
  std::string path = {};
  bool unique_names = true;
  bool verify = true;
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;
  std::vector<int64_t> channels = {};
  std::vector<AnyTransformConfig> transforms = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("path", self.path, "folder with manifest.json, as `fovea data pack` writes it",
            {.required = true});
    v.field("unique_names", self.unique_names, "two samples with one name are an error");
    v.field("verify", self.verify, "compare each sample with its checksum whenever it is read");
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
};

// Maps all shards into memory and reads their indices. Throws DataError: a folder that was not
// packed to its end, another version, a shard that is missing, damaged or of another size, two
// samples with one name.
std::shared_ptr<const Dataset> build_packed_dataset(const PackedConfig& config);

}  // namespace fovea::data
