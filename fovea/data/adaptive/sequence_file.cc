#include "fovea/data/adaptive/sequence_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/safetensors.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostPatches = int64_t{1} << 28;

// Sizes before contents: the preamble looks at nothing else of the bytes.
SafetensorsEntry planned_entry(const std::string& name, const std::string& dtype,
                               std::vector<int64_t> shape) {
  static const std::byte nothing{};
  auto count = static_cast<size_t>(safetensors_element_bytes(dtype));
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return {name, dtype, std::move(shape), {&nothing, count}};
}

std::vector<int32_t> leaf_rows(const PatchSequence& sequence) {
  std::vector<int32_t> rows;
  for (const PatchTree& tree : sequence.trees) {
    const size_t end = rows.size() + static_cast<size_t>(4 * sequence.fixed_length);
    for (const Box& leaf : tree.leaves) {
      rows.insert(rows.end(), {leaf.y, leaf.x, leaf.height, leaf.width});
    }
    rows.resize(end, 0);
  }
  return rows;
}

int64_t number_in(const std::map<std::string, std::string>& metadata, const std::string& key,
                  int64_t most, const std::string& path) {
  const auto found = metadata.find(key);
  int64_t value = 0;
  if (found != metadata.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) value = 0;
  }
  if (value >= 1 && value <= most) return value;
  fail<DataError>(
      "{}: metadata {} is missing or not in 1 to {}; expected a file of `fovea data "
      "patch`",
      printable(path), key, most);
}

// Leaves of one tree, up to the padding.
PatchTree tree_of(const int32_t* rows, int64_t length, const ImageSize& size,
                  const std::string& path) {
  PatchTree tree;
  tree.size = {1, size.height, size.width};
  int64_t pixels = 0;
  for (int64_t l = 0; l < length; ++l, rows += 4) {
    const Box leaf = {0, rows[0], rows[1], 1, rows[2], rows[3]};
    if (leaf.height == 0 && leaf.width == 0) break;
    if (leaf.y < 0 || leaf.x < 0 || leaf.height < 1 || leaf.width < 1 ||
        leaf.height > size.height - leaf.y || leaf.width > size.width - leaf.x) {
      fail<DataError>("{}: leaf {} is {}x{} at row {}, column {}, outside of {}x{}",
                      printable(path), l, leaf.height, leaf.width, leaf.y, leaf.x, size.height,
                      size.width);
    }
    pixels += leaf.voxels();
    tree.leaves.push_back(leaf);
  }
  if (pixels != size.height * size.width) {
    fail<DataError>("{}: the leaves make up {} pixels; expected {}x{}", printable(path), pixels,
                    size.height, size.width);
  }
  return tree;
}

}  // namespace

struct SequenceFileWriter::State {
  State(const std::string& file_path, const RegionFormat& image,
        const AdaptivePatchingConfig& config)
      : path(file_path), temporary(file_path + ".XXXXXX"), length(config.fixed_length) {
    token_size = config.patch_size * config.patch_size;
    const int64_t trees = config.separate_channels ? image.channels : 1;
    // Bytes last: the numbers before them lie at multiples of their size.
    const std::array entries = {
        planned_entry("sizes", "F32", {trees, length}),
        planned_entry("centers", "F32", {trees, length, 2}),
        planned_entry("leaves", "I32", {trees, length, 4}),
        planned_entry("tokens", "F32", {image.channels, length, token_size}),
        planned_entry("padding_mask", "U8", {trees, length})};
    const std::string preamble = safetensors_preamble(
        entries, {{"height", fmt::to_string(image.size.height)},
                  {"width", fmt::to_string(image.size.width)},
                  {"patch_size", fmt::to_string(config.patch_size)},
                  {"upstream_compatible", config.upstream_compatible ? "1" : "0"}});
    offsets[0] = preamble.size();
    for (size_t i = 0; i < entries.size(); ++i) {
      offsets[i + 1] = offsets[i] + entries[i].bytes.size();
    }
    file = mkostemp(temporary.data(), O_CLOEXEC);
    if (file < 0) fail_with_errno("made");
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(file, 0666 & ~mask);
    try {
      // Tokens of the padding are the zeros of a file that was never written there.
      if (ftruncate(file, static_cast<off_t>(offsets.back())) != 0) fail_with_errno("written");
      write_at(0, preamble.data(), preamble.size());
    } catch (...) {
      remove();
      throw;
    }
  }
  ~State() { remove(); }

  void remove() {
    if (file < 0) return;
    close(file);
    unlink(temporary.c_str());
    file = -1;
  }

  [[noreturn]] void fail_with_errno(const char* what) const {
    fail<DataError>("{}: cannot be {} ({}); free space or choose another folder", printable(path),
                    what, std::strerror(errno));
  }

  void write_at(uint64_t offset, const void* from, size_t count) {
    const auto* bytes = static_cast<const char*>(from);
    while (count > 0) {
      const ssize_t written = pwrite(file, bytes, count, static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail_with_errno("written");
      bytes += written;
      offset += static_cast<uint64_t>(written);
      count -= static_cast<size_t>(written);
    }
  }

  template <class T>
  void write_all(size_t entry, const std::vector<T>& values) {
    FOVEA_CHECK(values.size() * sizeof(T) == offsets[entry + 1] - offsets[entry],
                "{}: {} numbers for {} bytes", path, values.size(),
                offsets[entry + 1] - offsets[entry]);
    write_at(offsets[entry], values.data(), values.size() * sizeof(T));
  }

  std::string path;
  std::string temporary;
  int64_t length = 0;
  int64_t token_size = 0;
  std::array<uint64_t, 6> offsets{};  // of the entries, and the end
  int file = -1;
};

SequenceFileWriter::SequenceFileWriter(const std::string& path, const RegionFormat& image,
                                       const AdaptivePatchingConfig& config)
    : state_(std::make_unique<State>(path, image, config)) {}

SequenceFileWriter::~SequenceFileWriter() = default;

void SequenceFileWriter::write_token(int64_t channel, int64_t leaf, std::span<const float> token) {
  const int64_t at = (channel * state_->length + leaf) * state_->token_size;
  FOVEA_CHECK(static_cast<int64_t>(token.size()) == state_->token_size,
              "{} values of a token of {}", token.size(), state_->token_size);
  state_->write_at(state_->offsets[3] + static_cast<uint64_t>(at) * sizeof(float), token.data(),
                   token.size_bytes());
}

void SequenceFileWriter::finish(const PatchSequence& sequence) {
  State& state = *state_;
  state.write_all(0, sequence.sizes);
  state.write_all(1, sequence.centers);
  state.write_all(2, leaf_rows(sequence));
  state.write_all(4, sequence.padding_mask);
  if (fsync(state.file) != 0) state.fail_with_errno("brought to the disk");
  if (std::rename(state.temporary.c_str(), state.path.c_str()) != 0) {
    state.fail_with_errno("renamed into place");
  }
  close(state.file);
  state.file = -1;
}

SavedSequence load_sequence(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  const ImageSize size = {number_in(file.metadata(), "height", kMaxRegionSide, path),
                          number_in(file.metadata(), "width", kMaxRegionSide, path)};
  SavedSequence saved;
  const auto compatible = file.metadata().find("upstream_compatible");
  saved.upstream_compatible = compatible != file.metadata().end() && compatible->second == "1";
  PatchSequence& sequence = saved.sequence;
  sequence.patch_size = number_in(file.metadata(), "patch_size", 1024, path);
  sequence.dims = 2;
  const auto* leaves = file.find("leaves");
  if (leaves == nullptr || leaves->dtype != "I32" || leaves->shape.size() != 3 ||
      leaves->shape[2] != 4 || leaves->shape[0] < 1 || leaves->shape[0] > kMaxRegionChannels ||
      leaves->shape[1] < 1 || leaves->shape[1] > kMostPatches) {
    fail<DataError>(
        "{}: no tensor `leaves` of I32 [trees, patches, 4]; expected a file of `fovea "
        "data patch`",
        printable(path));
  }
  sequence.fixed_length = leaves->shape[1];
  std::vector<int32_t> rows(static_cast<size_t>(4 * sequence.fixed_length));
  for (int64_t t = 0; t < leaves->shape[0]; ++t) {
    std::memcpy(rows.data(), leaves->bytes.data() + static_cast<size_t>(t) * rows.size() * 4,
                rows.size() * 4);
    sequence.trees.push_back(tree_of(rows.data(), sequence.fixed_length, size, path));
  }
  file.check_unchanged();
  return saved;
}

}  // namespace fovea::data
