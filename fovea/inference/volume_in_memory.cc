#include "fovea/inference/volume_in_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <type_traits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/write_all.h"
#include "fovea/files/input_stream.h"

namespace fovea::inference {
namespace {

bool has_at(std::span<const uint8_t> bytes, size_t place, std::string_view text) {
  return bytes.size() >= place + text.size() &&
         std::memcmp(bytes.data() + place, text.data(), text.size()) == 0;
}

// A file that goes when it is left; only its owner may read it.
class OwnFile {
 public:
  OwnFile(std::span<const uint8_t> bytes, std::string_view ending, const std::string& name) {
    path_ = (std::filesystem::temp_directory_path() / "fovea-volume-XXXXXX").string();
    path_ += ending;
    const int file = mkostemps(path_.data(), static_cast<int>(ending.size()), O_CLOEXEC);
    const bool is_whole = file >= 0 && write_all(file, std::as_bytes(bytes));
    const int error = errno;
    if (file >= 0) close(file);
    if (is_whole) return;
    if (file >= 0) unlink(path_.c_str());
    fail<DataError>(
        "{}: its {} bytes cannot be written to {}: {}; set TMPDIR to where there is room", name,
        bytes.size(), path_, std::strerror(error));
  }
  ~OwnFile() { unlink(path_.c_str()); }
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The file's data set under the name that the bytes came with.
class VolumeInMemory : public data::Dataset {
 public:
  VolumeInMemory(std::unique_ptr<OwnFile> file, std::string name, const train::Inference& inference)
      : file_(std::move(file)), name_(std::move(name)) {
    samples_ = named([&] { return inference.open_files({file_->path()}); });
  }

  int64_t size() const override { return samples_->size(); }
  data::SampleForm form() const override { return samples_->form(); }
  void read(int64_t index, data::Sample& sample) const override {
    named([&] { samples_->read(index, sample); });
  }
  const std::vector<std::string>& class_names() const override { return samples_->class_names(); }
  int64_t num_classes() const override { return samples_->num_classes(); }
  data::VolumeSize size_of(int64_t index) const override {
    return named([&] { return samples_->size_of(index); });
  }
  int64_t channels_of(int64_t index) const override {
    return named([&] { return samples_->channels_of(index); });
  }
  bool read_region(int64_t index, const data::VolumeRegion& region,
                   data::Sample& sample) const override {
    return named([&] { return samples_->read_region(index, region, sample); });
  }
  std::string describe(int64_t /*index*/) const override { return name_; }

 private:
  // Whoever sent the bytes knows nothing of the file.
  template <class Call>
  std::invoke_result_t<const Call&> named(const Call& call) const {
    try {
      return call();
    } catch (const DataError& error) {
      throw DataError(renamed(error.what()));
    } catch (const ConfigError& error) {
      throw ConfigError(renamed(error.what()));
    }
  }

  std::string renamed(std::string message) const {
    const auto& path = file_->path();
    for (size_t at = 0; (at = message.find(path, at)) != std::string::npos; at += name_.size()) {
      message.replace(at, path.size(), name_);
    }
    return message;
  }

  std::unique_ptr<OwnFile> file_;
  std::string name_;
  std::shared_ptr<const data::Dataset> samples_;
};

}  // namespace

bool is_volume_file(std::span<const uint8_t> bytes) {
  constexpr std::string_view kNifti1("n+1\0", 4), kNifti2("n+2\0", 4);
  return (bytes.size() > 2 && is_gzip(bytes)) || has_at(bytes, 344, kNifti1) ||
         has_at(bytes, 4, kNifti2);
}

std::shared_ptr<const data::Dataset> open_volume_in_memory(std::span<const uint8_t> bytes,
                                                           const std::string& name,
                                                           const train::Inference& inference) {
  auto file = std::make_unique<OwnFile>(bytes, is_gzip(bytes) ? ".nii.gz" : ".nii", name);
  return std::make_shared<const VolumeInMemory>(std::move(file), name, inference);
}

}  // namespace fovea::inference
