// Sizes of volumes that an earlier start has found, so that this one opens no file for them. They
// are kept beside the data set, in ".fovea_sizes", and hold as long as the file is the same by its
// size and the time of its last change; of a folder, all files in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/data/volume/volume.h"

namespace fovea::data {

inline constexpr std::string_view kKnownSizesName = ".fovea_sizes";
// Data sets of fewer volumes are opened as fast without, and keep nothing.
inline constexpr int64_t kLeastKnownSizes = 64;

// What tells a file from another one of its name.
struct FileState {
  uint64_t bytes = 0;
  uint64_t stamp = 0;  // time of the last change; of a folder, a checksum of its files' names,
                       // sizes and times
  bool operator==(const FileState&) const = default;
};

struct KnownSize {
  FileState state;
  VolumeSize size;
  bool operator==(const KnownSize&) const = default;
};

// By how files are opened ("nifti-canonical": it swaps axes) and the path below the data set's.
using KnownSizes = std::map<std::pair<std::string, std::string>, KnownSize>;

// A first line with the version, then one a file: "D H W BYTES STAMP HOW PATH". Throws DataError
// naming `name` and the line.
KnownSizes parse_known_sizes(std::string_view text, const std::string& name);
std::string format_known_sizes(const KnownSizes& known);

// The sizes of `paths`, files or folders below `root`: as known there, else `read(i)`, in several
// threads. What is new is kept for the next start, where the folder can be written to; a file that
// changed within the last seconds is not, for it could change again and look the same. Throws what
// `read` throws, of the first path.
std::vector<VolumeSize> sizes_of_files(const std::string& root, const std::string& known_as,
                                       const std::vector<std::string>& paths,
                                       const std::function<VolumeSize(size_t)>& read);

}  // namespace fovea::data
