#include <filesystem>
#include <map>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data_tools/pack/pack_writers.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/checksum.h"
#include "fovea/files/mapped_file.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

class PackedWriter : public ShardWriter {
 public:
  explicit PackedWriter(std::string folder) : folder_(std::move(folder)) {}

  int64_t resume() override {
    while (is_there(path_of(num_shards()))) {
      const MappedFile file(path_of(num_shards()));
      const uint64_t size = file.size();
      if (size < kPackedHeaderBytes + kPackedFooterBytes) {
        fail<DataError>("{}: truncated; remove it and pack again", file.name());
      }
      const uint64_t tail = packed_tail_bytes(
          file.ready(size - kPackedFooterBytes, kPackedFooterBytes), size, file.name());
      index_ = parse_packed_tail(file.ready(0, kPackedHeaderBytes), file.ready(size - tail, tail),
                                 size, file.name());
      if (index_.first_sample != static_cast<uint64_t>(samples_)) {
        fail<DataError>("{}: begins with sample {}; expected {}; remove it and pack again",
                        file.name(), index_.first_sample, samples_);
      }
      note_shard(size);
    }
    return samples_;
  }

  void begin_shard() override {
    index_ = {};
    index_.first_sample = static_cast<uint64_t>(samples_);
    file_ = std::make_unique<AtomicFile>(path_of(num_shards()));
    offset_ = 0;
    write(format_packed_header(index_.first_sample));
  }

  uint64_t bytes_with(uint64_t bytes) const override { return offset_ + bytes; }

  void add(const PackedSample& sample) override {
    PackedEntry entry = sample.entry;
    entry.offset = offset_;
    const auto bytes = std::span(sample.bytes);
    entry.checksum = checksum(sample.checked_bytes > 0 ? bytes.first(sample.checked_bytes) : bytes);
    index_.names += sample.name;
    entry.name_end = static_cast<uint32_t>(index_.names.size());
    index_.entries.push_back(entry);
    index_.sums.add(sample.sums);
    file_->write(std::as_bytes(std::span(sample.bytes)));
    offset_ += sample.bytes.size();
  }

  void finish_shard() override {
    write(format_packed_tail(index_, offset_));
    file_->commit();
    file_.reset();
    note_shard(offset_);
  }

  void complete(const Dataset& dataset) override {
    manifest_.class_names = dataset.class_names();
    manifest_.num_classes = dataset.num_classes();
    if (labels_.empty() || labels_.begin()->first >= 0) {
      manifest_.class_counts.assign(static_cast<size_t>(manifest_.num_classes), 0);
      for (const auto& [label, count] : labels_) {
        if (label >= manifest_.num_classes) {
          fail<DataError>("a sample has label {}, but there are {} classes", label,
                          manifest_.num_classes);
        }
        manifest_.class_counts[static_cast<size_t>(label)] = count;
      }
    }
    manifest_.mean = sums_.mean();
    manifest_.std = sums_.std();
    manifest_.has_volumes = dataset.form() == SampleForm::kVolume;
    manifest_.has_masks = dataset.has_masks();
    write_file_atomic((fs::path(folder_) / kPackedManifest).string(),
                      format_packed_manifest(manifest_));
  }

  int64_t num_shards() const override { return static_cast<int64_t>(manifest_.shards.size()); }
  uint64_t num_bytes() const override { return bytes_; }

 private:
  std::string path_of(int64_t shard) const {
    return (fs::path(folder_) / packed_shard_name(shard)).string();
  }

  void write(const std::string& text) {
    file_->write(text);
    offset_ += text.size();
  }

  // index_ is that of the shard.
  void note_shard(uint64_t bytes) {
    manifest_.shards.push_back({packed_shard_name(num_shards()), index_.size(), bytes});
    samples_ += index_.size();
    bytes_ += bytes;
    sums_.add(index_.sums);
    for (const auto& entry : index_.entries) ++labels_[entry.label];
  }

  std::string folder_;
  PackedManifest manifest_;
  PackedShardIndex index_;  // of the shard that is open
  std::unique_ptr<AtomicFile> file_;
  uint64_t offset_ = 0;
  int64_t samples_ = 0;  // in whole shards
  uint64_t bytes_ = 0;
  PixelSums sums_;
  std::map<int64_t, int64_t> labels_;
};

}  // namespace

std::unique_ptr<ShardWriter> make_packed_writer(const std::string& folder) {
  return std::make_unique<PackedWriter>(folder);
}

const char* completion_file(const std::string& to) {
  return to == "wds" ? "dataset.json" : kPackedManifest;
}

}  // namespace fovea::data
