#include "fovea/data/adaptive/sequence_file.h"

#include <array>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/files/atomic_file.h"
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
    for (const TreeBox& leaf : tree.leaves) {
      rows.insert(rows.end(), {leaf.y, leaf.x, leaf.height, leaf.width});
    }
    rows.resize(end, 0);
  }
  return rows;
}

int64_t number_in(const std::map<std::string, std::string>& metadata, const std::string& key,
                  int64_t most, const std::string& path) {
  const auto found = metadata.find(key);
  const auto value = found == metadata.end() ? std::nullopt : parse_number<int64_t>(found->second);
  if (value && *value >= 1 && *value <= most) return *value;
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
    const TreeBox leaf = {0, rows[0], rows[1], 1, rows[2], rows[3]};
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
  State(const std::string& path, const RegionFormat& image, const AdaptivePatchingConfig& config)
      : length(config.fixed_length), token_size(config.patch_size * config.patch_size), file(path) {
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
    file.write(preamble);
  }

  template <class T>
  void write_all(size_t entry, const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    FOVEA_CHECK(bytes.size() == offsets[entry + 1] - offsets[entry], "{} bytes in place of {}",
                bytes.size(), offsets[entry + 1] - offsets[entry]);
    file.write_at(offsets[entry], bytes);
  }

  int64_t length = 0;
  int64_t token_size = 0;
  std::array<uint64_t, 6> offsets{};  // of the entries, and the end
  AtomicFile file;
};

SequenceFileWriter::SequenceFileWriter(const std::string& path, const RegionFormat& image,
                                       const AdaptivePatchingConfig& config)
    : state_(std::make_unique<State>(path, image, config)) {}

SequenceFileWriter::~SequenceFileWriter() = default;

// Tokens of the padding are never written: zeros.
void SequenceFileWriter::write_token(int64_t channel, int64_t leaf, std::span<const float> token) {
  const int64_t at = (channel * state_->length + leaf) * state_->token_size;
  FOVEA_CHECK(static_cast<int64_t>(token.size()) == state_->token_size,
              "{} values of a token of {}", token.size(), state_->token_size);
  state_->file.write_at(state_->offsets[3] + static_cast<uint64_t>(at) * sizeof(float),
                        std::as_bytes(token));
}

void SequenceFileWriter::finish(const PatchSequence& sequence) {
  state_->write_all(0, sequence.sizes);
  state_->write_all(1, sequence.centers);
  state_->write_all(2, leaf_rows(sequence));
  state_->write_all(4, sequence.padding_mask);
  state_->file.commit();
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
