// Where the samples of a WebDataset tar stand, so that they can be read in any order. The text form
// is that of DALI's wds2idx: "v1.2 SAMPLES", then a line a sample of "ENDING OFFSET SIZE NAME" for
// each of its files; v1.1 has no NAME.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/files/byte_source.h"

namespace fovea::data {

// One file of a sample.
struct WdsPart {
  uint64_t offset = 0;  // of its bytes in the tar
  uint64_t size = 0;
  uint32_t ending = 0;  // number in WdsIndex::endings
};

struct WdsIndex {
  std::vector<std::string> endings;  // the different ones: "jpg", "cls", "seg.png"
  std::vector<WdsPart> parts;        // of all samples, in the order of the tar
  std::vector<uint32_t> ends;        // [samples]: where the parts of each end
  std::string keys;                  // of all samples, one after the other
  std::vector<uint32_t> key_ends;    // [samples], or empty: the index did not name them

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
  std::string_view key(int64_t sample) const;
  // The parts [first, last) of a sample.
  std::pair<uint32_t, uint32_t> range(int64_t sample) const;
  // The number of the sample's part with this ending (compared in lower case); nothing: none.
  std::optional<uint32_t> find(int64_t sample, std::string_view ending) const;

  // Adds a part; it belongs to the last sample unless `is_new_sample`. For readers and tests.
  void add(bool is_new_sample, std::string_view key, std::string_view ending, uint64_t offset,
           uint64_t size);
};

// WebDataset's rule: the key is the path up to the first dot of the file name, the ending what
// follows. Nothing: no dot, a hidden file, or metadata (__name__).
std::optional<std::pair<std::string_view, std::string_view>> split_wds_name(std::string_view path);

// Walks over the tar. Files that follow each other and share the key are a sample. Throws
// DataError: what TarReader throws, no samples, two files of a sample with one ending, two samples
// with one key.
WdsIndex build_wds_index(const ByteSource& tar);

// Reads the text form, v1.1 or v1.2. `name` is what messages call it, `tar_size` what every part
// must lie in. Throws DataError naming the line.
WdsIndex parse_wds_index(std::string_view text, const std::string& name, uint64_t tar_size);

// The text form: v1.2, or v1.1 where a name holds a space, which v1.2 cannot hold.
std::string format_wds_index(const WdsIndex& index);

// The index file that belongs beside a tar: x.tar -> x.idx.
std::string wds_index_path(const std::string& tar_path);

// Throws DataError naming both tars where a key stands twice. `names` are those of the tars.
void check_wds_keys(const std::vector<WdsIndex>& indices, const std::vector<std::string>& names);

}  // namespace fovea::data
