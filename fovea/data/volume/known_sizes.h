// Sizes of volumes, known from an earlier start (known_files.h): ".fovea_sizes".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/data/volume/known_files.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// Data sets of fewer volumes are opened as fast without, and keep nothing.
inline constexpr int64_t kLeastKnownSizes = 64;

template <>
struct KnownFormat<VolumeSize> {
  static constexpr std::string_view kFile = ".fovea_sizes";
  static constexpr std::string_view kFirstLine = "fovea sizes 1";
  static constexpr std::string_view kColumns = "D H W";
  static std::string format(const VolumeSize& size);
  static bool take(std::string_view& line, VolumeSize& size);
};

// The sizes of `paths`, files or folders below `root`: as known there, else `read(i)`, in several
// threads. What is new is kept for the next start, where the folder can be written to. Throws what
// `read` throws, of the first path.
std::vector<VolumeSize> sizes_of_files(const std::string& root, const std::string& known_as,
                                       const std::vector<std::string>& paths,
                                       const std::function<VolumeSize(size_t)>& read);

}  // namespace fovea::data
