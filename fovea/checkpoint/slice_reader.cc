#include "fovea/checkpoint/slice_reader.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fovea/checkpoint/byte_sum.h"
#include "fovea/core/error.h"
#include "fovea/files/safetensors.h"
#include "fovea/files/sha256.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

// The file, of the size that the manifest says.
InputFile open_file(const fs::path& folder, const FileEntry& entry) {
  InputFile file((folder / entry.name).string());
  if (file.size() == entry.bytes) return file;
  fail<CheckpointError>("{}: found {} bytes, expected {}", entry.name, file.size(), entry.bytes);
}

std::span<uint8_t> bytes_of(void* first, size_t count) {
  return {static_cast<uint8_t*>(first), count};
}

}  // namespace

void verify_file(const fs::path& folder, const FileEntry& entry) {
  const auto file = open_file(folder, entry);
  Sha256 hash;
  std::vector<uint8_t> piece(std::min<uint64_t>(entry.bytes, uint64_t{8} << 20));
  for (uint64_t done = 0; done < entry.bytes;) {
    const auto some = std::span(piece).first(std::min<uint64_t>(entry.bytes - done, piece.size()));
    file.read(done, some);
    hash.update(some.data(), some.size());
    done += some.size();
  }
  if (hash.finish() != entry.sha256) {
    fail<CheckpointError>("{}: its checksum does not fit", entry.name);
  }
}

SliceReader::SliceReader(const fs::path& folder, const FileEntry& entry,
                         const SavedSlices& expected)
    : name_(entry.name), expected_(expected), file_(open_file(folder, entry)) {
  const bool has_sums = !entry.preamble.empty() &&
                        std::none_of(expected.begin(), expected.end(), [](const auto& item) {
                          return item.second.slice->sum.empty();
                        });
  if (!has_sums) verify_file(folder, entry);
  read_preamble(entry);
}

void SliceReader::read_preamble(const FileEntry& entry) {
  uint64_t header_bytes = 0;
  if (entry.bytes >= 8) file_.read(0, bytes_of(&header_bytes, 8));
  if (entry.bytes < 8 || header_bytes > entry.bytes - 8 || header_bytes > kMaxSafetensorsHeader) {
    fail<CheckpointError>("{}: not a safetensors file", name_);
  }
  std::string preamble(8 + header_bytes, '\0');
  std::memcpy(preamble.data(), &header_bytes, 8);
  file_.read(8, bytes_of(preamble.data() + 8, header_bytes));
  if (!entry.preamble.empty() && byte_sum(preamble.data(), preamble.size()) != entry.preamble) {
    fail<CheckpointError>("{}: its checksum does not fit (in the header)", name_);
  }
  const auto header = parse_safetensors_header(std::string_view(preamble).substr(8),
                                               entry.bytes - preamble.size(), name_);
  for (size_t i = 0; i < header.entries.size(); ++i) {
    const auto& found = header.entries[i];
    const auto wanted = expected_.find(found.name);
    if (wanted == expected_.end() || wanted->second.tensor->dtype != found.dtype ||
        wanted->second.slice->size != found.shape) {
      fail<CheckpointError>("{}: '{}' is not as the manifest has it", name_, found.name);
    }
    offsets_[found.name] = preamble.size() + header.offsets[i];
  }
  for (const auto& [key, unused] : expected_) {
    if (!offsets_.contains(key)) fail<CheckpointError>("{}: '{}' is missing", name_, key);
  }
}

at::Tensor SliceReader::read(const std::string& key) {
  const auto& wanted = expected_.at(key);
  const auto values = at::empty(wanted.slice->size, nn::dtype_of_safetensors(wanted.tensor->dtype));
  file_.read(offsets_.at(key), bytes_of(values.mutable_data_ptr(), values.nbytes()));
  bytes_read_ += values.nbytes();
  const auto& sum = wanted.slice->sum;
  if (!sum.empty() && byte_sum(values.const_data_ptr(), values.nbytes()) != sum) {
    fail<CheckpointError>("{}: its checksum does not fit (in '{}')", name_, key);
  }
  return values;
}

}  // namespace fovea::checkpoint
