#include <filesystem>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/data/archive/tar.h"
#include "fovea/data/archive/tar_writer.h"
#include "fovea/data/archive/wds_index.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data_tools/pack/pack_writers.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/byte_source.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxWrittenIndexBytes = uint64_t{1} << 30;  // what is read of one

// shard-000000.tar with 00000000.jpg and 00000000.cls, and shard-000000.idx beside it.
class WdsWriter : public ShardWriter {
 public:
  explicit WdsWriter(std::string folder) : folder_(std::move(folder)) {}

  int64_t resume() override {
    while (is_there(path_of(num_shards()))) {
      const auto path = path_of(num_shards());
      const FileSource tar(path);
      // The index comes after its tar; where the writer was stopped in between, it is made again.
      if (is_there(wds_index_path(path))) {
        const auto index_path = wds_index_path(path);
        index_ =
            parse_wds_index(read_file(index_path, kMaxWrittenIndexBytes), index_path, tar.size());
      } else {
        index_ = build_wds_index(tar);
        write_file_atomic(wds_index_path(path), format_wds_index(index_));
      }
      note_shard(tar.size());
    }
    return samples_;
  }

  void begin_shard() override {
    index_ = {};
    offset_ = 0;
    file_ = std::make_unique<AtomicFile>(path_of(num_shards()));
  }

  uint64_t bytes_with(uint64_t bytes) const override { return offset_ + bytes + 4 * kTarBlock; }

  void add(const PackedSample& sample) override {
    const auto key = fmt::format("{:08}", samples_ + index_.size());
    const ImageFormat* format = find_image_format(sample.bytes);
    FOVEA_CHECK(format != nullptr, "{}: no image file", key);
    add_file(true, key, format->endings[0],
             {reinterpret_cast<const char*>(sample.bytes.data()), sample.bytes.size()});
    if (sample.entry.label >= 0) {
      add_file(false, key, "cls", fmt::format("{}", sample.entry.label));
    }
  }

  void finish_shard() override {
    write(tar_end());
    file_->commit();
    file_.reset();
    const auto path = path_of(num_shards());
    write_file_atomic(wds_index_path(path), format_wds_index(index_));
    note_shard(offset_);
  }

  void complete(const Dataset& dataset) override {
    const nlohmann::ordered_json json = {{"format", "wds"},
                                         {"num_samples", samples_},
                                         {"num_classes", dataset.num_classes()},
                                         {"class_names", dataset.class_names()},
                                         {"shards", shards_}};
    write_file_atomic((fs::path(folder_) / completion_file("wds")).string(),
                      json_text(json, 1) + "\n");
  }

  int64_t num_shards() const override { return static_cast<int64_t>(shards_.size()); }
  uint64_t num_bytes() const override { return bytes_; }

 private:
  static std::string name_of(int64_t shard) { return fmt::format("shard-{:06}.tar", shard); }
  std::string path_of(int64_t shard) const { return (fs::path(folder_) / name_of(shard)).string(); }

  void write(std::string_view text) {
    file_->write(text);
    offset_ += text.size();
  }

  void add_file(bool is_new, const std::string& key, std::string_view ending,
                std::string_view bytes) {
    write(tar_header(fmt::format("{}.{}", key, ending), bytes.size()));
    index_.add(is_new, key, ending, offset_, bytes.size());
    write(bytes);
    write(tar_padding(bytes.size()));
  }

  void note_shard(uint64_t bytes) {
    shards_.push_back(name_of(num_shards()));
    samples_ += index_.size();
    bytes_ += bytes;
  }

  std::string folder_;
  std::vector<std::string> shards_;
  WdsIndex index_;  // of the shard that is open
  std::unique_ptr<AtomicFile> file_;
  uint64_t offset_ = 0;
  int64_t samples_ = 0;  // in whole shards
  uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<ShardWriter> make_wds_writer(const std::string& folder) {
  return std::make_unique<WdsWriter>(folder);
}

}  // namespace fovea::data
