#include "fovea/data/datasets/packed.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/parallel_for.h"
#include "fovea/data/archive/packed_format.h"
#include "fovea/data/datasets/repeated_keys.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/volume/packed_volume.h"
#include "fovea/files/checksum.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/mapped_file.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;  // a million shards and names

struct PackedShard {
  std::unique_ptr<const MappedFile> file;
  PackedShardIndex index;
  int64_t first = 0;  // sample of the data set
};

PackedShardIndex read_index(const MappedFile& file) {
  const uint64_t size = file.size();
  if (size < kPackedHeaderBytes + kPackedFooterBytes) {
    fail<DataError>("{}: {} bytes are too few for a packed shard; it is truncated", file.name(),
                    size);
  }
  const uint64_t tail = packed_tail_bytes(file.ready(size - kPackedFooterBytes, kPackedFooterBytes),
                                          size, file.name());
  return parse_packed_tail(file.ready(0, kPackedHeaderBytes), file.ready(size - tail, tail), size,
                           file.name());
}

class PackedDataset : public Dataset {
 public:
  PackedDataset(const PackedConfig& config, PackedManifest manifest)
      : root_(config.path),
        verify_(config.verify),
        max_unpacked_bytes_(config.max_unpacked_bytes),
        manifest_(std::move(manifest)) {
    shards_.resize(manifest_.shards.size());
    for (size_t s = 0; s < shards_.size(); ++s) {
      shards_[s].first = size_;
      size_ += manifest_.shards[s].samples;
    }
    parallel_for(static_cast<int64_t>(shards_.size()), 0,
                 [&](int64_t s) { open_shard(static_cast<size_t>(s)); });
    if (config.unique_names) check_names();
  }

  int64_t size() const override { return size_; }
  int64_t num_classes() const override { return manifest_.num_classes; }
  const std::vector<std::string>& class_names() const override { return manifest_.class_names; }

  SampleForm form() const override {
    return manifest_.has_volumes ? SampleForm::kVolume : SampleForm::kImage;
  }
  bool has_masks() const override { return manifest_.has_masks; }

  VolumeSize size_of(int64_t index) const override {
    return manifest_.has_volumes ? open_volume(index).volume.size : Dataset::size_of(index);
  }
  int64_t channels_of(int64_t index) const override {
    return manifest_.has_volumes ? open_volume(index).volume.channels : Dataset::channels_of(index);
  }

  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override {
    if (!manifest_.has_volumes) return false;
    const MappedReads reads;
    const PackedSampleVolume opened = open_volume(index);
    check_whole(*this, index, opened.volume.size, region);
    read_chunks(opened, index, region, sample);
    reads.check([&] { return describe(index); });
    return true;
  }

  void read(int64_t index, Sample& sample) const override {
    const MappedReads reads;
    if (manifest_.has_volumes) {
      const PackedSampleVolume opened = open_volume(index);
      const VolumeSize& size = opened.volume.size;
      read_chunks(opened, index, {.start = {}, .size = size, .whole = size}, sample);
      return reads.check([&] { return describe(index); });
    }
    const auto [shard, i] = place_of(index);
    const auto& entry = shard.index.entries[static_cast<size_t>(i)];
    const auto bytes = bytes_of(shard, entry, index);
    sample.label = entry.label;
    if (entry.encoding == PackedEncoding::kFile) {
      sample.become<EncodedImage>().bytes = bytes;
    } else {
      sample.become<StoredImage>() = {bytes, entry.height, entry.width, entry.channels};
    }
    reads.check([&] { return describe(index); });
  }

  std::string describe(int64_t index) const override {
    const auto [shard, i] = place_of(index);
    return fmt::format("{}[{}] ({})", shard.file->name(), i, printable(shard.index.name(i)));
  }

 private:
  struct PackedSampleVolume {
    const PackedShard& shard;
    const PackedEntry& entry;
    PackedVolume volume;
  };

  PackedSampleVolume open_volume(int64_t index) const {
    const auto [shard, i] = place_of(index);
    const auto& entry = shard.index.entries[static_cast<size_t>(i)];
    const std::string name = describe(index);
    if (entry.bytes < kPackedVolumeHeaderBytes) {
      fail<DataError>("{}: {} bytes are too few for a volume; pack again", name, entry.bytes);
    }
    const uint64_t head_bytes = packed_volume_head_bytes(
        shard.file->ready(entry.offset, kPackedVolumeHeaderBytes), entry.bytes, name);
    const auto head = checked(shard, entry.offset, head_bytes, entry.checksum, index);
    return {shard, entry, parse_packed_volume(head, entry.bytes, name)};
  }

  void read_chunks(const PackedSampleVolume& opened, int64_t index, const VolumeRegion& region,
                   Sample& sample) const {
    const std::string name = describe(index);
    const auto held = static_cast<uint64_t>(opened.volume.channels * region.size.voxels());
    check_unpacked_bytes(opened.entry.bytes, held * sizeof(float), max_unpacked_bytes_, name);
    const auto read = [&](const PackedChunk& chunk) {
      return checked(opened.shard, opened.entry.offset + chunk.offset, chunk.bytes, chunk.checksum,
                     index);
    };
    read_packed_region(opened.volume, region, read, name, sample.become<Volume>(), sample.mask);
    sample.label = opened.entry.label;
    if (manifest_.has_masks != opened.volume.mask_type.has_value()) {
      fail<DataError>("{}: {} mask, against the manifest; pack again", name,
                      opened.volume.mask_type ? "a" : "no");
    }
  }

  std::pair<const PackedShard&, int64_t> place_of(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size_, "index={}; expected 0 to {}", index, size_ - 1);
    const auto after = std::upper_bound(
        shards_.begin(), shards_.end(), index,
        [](int64_t value, const PackedShard& shard) { return value < shard.first; });
    return {*(after - 1), index - (after - 1)->first};
  }

  void check_names() const {
    const auto twice = find_repeated_key(size_, [&](int64_t sample) {
      const auto [shard, i] = place_of(sample);
      return shard.index.name(i);
    });
    if (!twice) return;
    fail<DataError>(
        "{}: two samples have one name: {} and {} ({} of {} repeat a name); pack again without "
        "them, or set unique_names: false",
        printable(root_), describe(twice->first), describe(twice->second), twice->count, size_);
  }

  void open_shard(size_t s) {
    PackedShard& shard = shards_[s];
    const auto& listed = manifest_.shards[s];
    shard.file = std::make_unique<const MappedFile>((fs::path(root_) / listed.file).string());
    const auto& name = shard.file->name();
    if (shard.file->size() != listed.bytes) {
      fail<DataError>(
          "{}: {} bytes, but the manifest has {}; it is truncated or of another packing", name,
          shard.file->size(), listed.bytes);
    }
    shard.index = read_index(*shard.file);
    if (shard.index.size() != listed.samples ||
        shard.index.first_sample != static_cast<uint64_t>(shard.first)) {
      fail<DataError>(
          "{}: {} samples from {} on, but the manifest has {} from {} on; it is of another "
          "packing",
          name, shard.index.size(), shard.index.first_sample, listed.samples, shard.first);
    }
    for (size_t i = 0; i < shard.index.entries.size(); ++i) {
      const bool is_volume = shard.index.entries[i].encoding == PackedEncoding::kVolume;
      if (is_volume != manifest_.has_volumes) {
        fail<DataError>(
            "{}: sample {} is {} volume, against the manifest; it is of another packing", name, i,
            is_volume ? "a" : "no");
      }
      const int32_t label = shard.index.entries[i].label;
      if (label < std::max<int64_t>(manifest_.num_classes, 0)) continue;
      fail<DataError>("{}: sample {} has label {}, but there are {} classes", name, i, label,
                      manifest_.num_classes);
    }
  }

  std::span<const uint8_t> bytes_of(const PackedShard& shard, const PackedEntry& entry,
                                    int64_t index) const {
    return checked(shard, entry.offset, entry.bytes, entry.checksum, index);
  }

  std::span<const uint8_t> checked(const PackedShard& shard, uint64_t offset, uint64_t count,
                                   uint64_t expected, int64_t index) const {
    const auto bytes = shard.file->ready(offset, count);
    if (verify_ && checksum(bytes) != expected) {
      fail<DataError>(
          "{}: the checksum is wrong: the sample is damaged; fetch the shard again, or "
          "remove it and pack again",
          describe(index));
    }
    return bytes;
  }

  std::string root_;
  bool verify_;
  int64_t max_unpacked_bytes_;
  PackedManifest manifest_;
  std::vector<PackedShard> shards_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<const Dataset> build_packed_dataset(const PackedConfig& config) {
  const auto path = fs::path(config.path) / kPackedManifest;
  std::error_code error;
  if (!fs::exists(path, error)) {
    const bool is_begun = fs::exists(fs::path(config.path) / packed_shard_name(0), error) ||
                          fs::exists(fs::path(config.path) / "plan.json", error);
    fail<DataError>("{}: no {}; {}", printable(config.path), kPackedManifest,
                    is_begun ? "it was not packed to its end: run the same `fovea data pack` again"
                             : "expected a folder that `fovea data pack` wrote");
  }
  const std::string name = printable(path.string());
  return std::make_shared<PackedDataset>(
      config, parse_packed_manifest(read_file(path.string(), kMaxManifestBytes), name));
}

}  // namespace fovea::data
