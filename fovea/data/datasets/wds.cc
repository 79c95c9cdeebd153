#include "fovea/data/datasets/wds.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/parallel_for.h"
#include "fovea/core/text.h"
#include "fovea/data/archive/tar.h"
#include "fovea/data/archive/wds_index.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/labels.h"
#include "fovea/files/braces.h"
#include "fovea/files/byte_source.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;  // ten million parts of one tar
constexpr uint64_t kMaxLabelBytes = 1 << 20;
constexpr uint64_t kMaxGap = 1 << 16;  // read over rather than around
constexpr uint64_t kLabelBlock = 256;  // labels that are read at once at the start

// Where the two files of a sample stand in its tar.
struct WdsPlace {
  uint64_t image = 0, label = 0;  // offsets; label 0: none
  uint32_t image_size = 0, label_size = 0;
  uint32_t shard = 0;
};

// The index files of the recipe, one for each of `count` tars.
std::vector<std::string> given_indices(const std::string& index, size_t count) {
  std::vector<std::string> paths;
  if (is_folder(index)) {
    for (size_t i = 0; i < count; ++i) {
      paths.push_back((fs::path(index) / fmt::format("idx_{}.txt", i)).string());
    }
    return paths;
  }
  paths = expand_braces(index);
  if (paths.size() != count) {
    fail<ConfigError>("index names {} files for {} tars; give one for each, in the same order",
                      paths.size(), count);
  }
  return paths;
}

// The index beside the tar; empty: none, or older than the tar.
std::string index_beside(const std::string& tar) {
  const std::string path = wds_index_path(tar);
  std::error_code error;
  const auto index_time = fs::last_write_time(path, error);
  if (error) return {};
  const auto tar_time = fs::last_write_time(tar, error);
  if (error || tar_time <= index_time) return path;
  log_warning(
      fmt::format("{} is older than its tar and not used; make it again: fovea data index {}",
                  printable(path), printable(tar)));
  return {};
}

class WdsDataset : public Dataset {
 public:
  WdsDataset(const WdsConfig& config, std::vector<std::string> tars)
      : config_(config), files_(std::move(tars)) {
    for (const auto& path : files_.paths()) names_.push_back(printable(path));
    read_indices();
    if (config.unique_keys) check_wds_keys(indices_, names_);
    choose_label();
    find_places();
    for (auto& index : indices_) {  // keys are for messages; the rest has done its work
      index.parts = {};
      index.ends.shrink_to_fit();
    }
    count_classes();
  }

  int64_t size() const override { return static_cast<int64_t>(places_.size()); }
  int64_t num_classes() const override { return num_classes_; }
  const std::vector<std::string>& class_names() const override { return config_.class_names; }

  void read(int64_t index, Sample& sample) const override {
    std::string_view label;
    auto& encoded = sample.become<EncodedImage>();
    encoded.bytes = read_parts(place_of(index), encoded.buffer, label, index);
    sample.label = label_of(label, index);
  }

  std::string describe(int64_t index) const override {
    const WdsPlace& place = place_of(index);
    const int64_t in_shard = index - first_[place.shard];
    const auto key = indices_[place.shard].key(in_shard);
    const auto& tar = names_[place.shard];
    return key.empty() ? fmt::format("{}[{}]", tar, in_shard)
                       : fmt::format("{}/{}", tar, printable(key));
  }

 private:
  const WdsPlace& place_of(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    return places_[static_cast<size_t>(index)];
  }

  void read_indices() {
    const auto& tars = files_.paths();
    indices_.resize(tars.size());
    const auto given = config_.index.empty() ? std::vector<std::string>()
                                             : given_indices(config_.index, tars.size());
    parallel_for(static_cast<int64_t>(tars.size()), 0, [&](int64_t i) {
      const auto t = static_cast<size_t>(i);
      const FileSource tar(tars[t]);
      const std::string path = given.empty() ? index_beside(tars[t]) : given[t];
      indices_[t] = path.empty() ? build_wds_index(tar)
                                 : parse_wds_index(read_file(path, kMaxIndexBytes), printable(path),
                                                   tar.size());
    });
  }

  // The ending that is the label in all samples; empty: none.
  void choose_label() {
    if (config_.label == "none") return;
    label_ending_ = config_.label;
    if (label_ending_ != "auto") return;
    for (const char* ending : {"cls", "json", "txt"}) {
      label_ending_ = ending;
      if (indices_[0].find(0, ending)) return;
    }
    label_ending_.clear();
  }

  std::string sample_name(size_t shard, int64_t i) const {
    const auto& index = indices_[shard];
    return index.key_ends.empty() ? fmt::format("{}[{}]", names_[shard], i)
                                  : fmt::format("{}/{}", names_[shard], printable(index.key(i)));
  }

  void find_places() {
    for (size_t shard = 0; shard < indices_.size(); ++shard) {
      first_.push_back(size());
      for (int64_t i = 0; i < indices_[shard].size(); ++i) {
        places_.push_back(find_place(shard, i));
      }
    }
  }

  WdsPlace find_place(size_t shard, int64_t i) const {
    const auto& index = indices_[shard];
    std::optional<uint32_t> image, label;
    for (size_t e = 0; e < config_.images.size() && !image; ++e) {
      image = index.find(i, config_.images[e]);
    }
    if (!image) {
      fail<DataError>(
          "{}: a sample without image: it has {}; name the ending of the image in images",
          sample_name(shard, i), endings_of(index, i));
    }
    if (!label_ending_.empty() && !(label = index.find(i, label_ending_))) {
      fail<DataError>(
          "{}: a sample without label: it has {}, but no {}; name the ending in label, or "
          "none",
          sample_name(shard, i), endings_of(index, i), label_ending_);
    }
    WdsPlace place{.shard = static_cast<uint32_t>(shard)};
    const auto size_within = [&](const WdsPart& part, uint64_t most) {
      if (part.size <= most) return static_cast<uint32_t>(part.size);
      fail<DataError>("{}: its {} has {} bytes; expected at most {}", sample_name(shard, i),
                      index.endings[part.ending], part.size, most);
    };
    if (index.parts[*image].size == 0) {
      fail<DataError>("{}: its image is an empty file", sample_name(shard, i));
    }
    place.image = index.parts[*image].offset;
    place.image_size = size_within(index.parts[*image], kMaxImageFileBytes);
    if (label) {
      place.label = index.parts[*label].offset;
      place.label_size = size_within(index.parts[*label], kMaxLabelBytes);
    }
    return place;
  }

  static std::string endings_of(const WdsIndex& index, int64_t i) {
    std::string text;
    const auto [first, last] = index.range(i);
    for (uint32_t p = first; p < last; ++p) {
      text += (p == first ? "" : ", ") + printable(index.endings[index.parts[p].ending]);
    }
    return text;
  }

  // Without num_classes or names the labels themselves tell.
  void count_classes() {
    if (label_ending_.empty()) return;
    num_classes_ = config_.num_classes.value_or(static_cast<int64_t>(config_.class_names.size()));
    if (num_classes_ > 0) return;
    const int64_t blocks = (size() + kLabelBlock - 1) / static_cast<int64_t>(kLabelBlock);
    std::vector<int64_t> largest(static_cast<size_t>(blocks), 0);
    parallel_for(blocks, 0, [&](int64_t block) {
      std::vector<uint8_t> bytes;
      const int64_t first = block * static_cast<int64_t>(kLabelBlock);
      for (int64_t i = first; i < std::min<int64_t>(size(), first + kLabelBlock); ++i) {
        const WdsPlace& place = place_of(i);
        const auto file = files_.open(place.shard);
        bytes.resize(place.label_size);
        file->read(place.label, bytes);
        const int64_t label =
            label_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, i);
        auto& most = largest[static_cast<size_t>(block)];
        most = std::max(most, label);
      }
    });
    num_classes_ = *std::max_element(largest.begin(), largest.end()) + 1;
  }

  // Image and label of a sample, in one read where they stand close to each other. The headers of
  // both are read with them and compared, so that an index of another tar is found.
  std::span<const uint8_t> read_parts(const WdsPlace& place, std::vector<uint8_t>& bytes,
                                      std::string_view& label, int64_t index) const {
    const auto file = files_.open(place.shard);
    const uint64_t image_first = place.image - kTarBlock;
    const uint64_t image_last = place.image + place.image_size;
    const bool has_label = place.label != 0;
    const uint64_t label_first = has_label ? place.label - kTarBlock : image_first;
    const uint64_t label_last = has_label ? place.label + place.label_size : image_last;
    const uint64_t first = std::min(image_first, label_first);
    const uint64_t last = std::max(image_last, label_last);
    const uint64_t wanted = image_last - image_first + label_last - label_first;
    size_t image_at = kTarBlock, label_at = 0;
    if (last - first <= wanted + kMaxGap) {
      bytes.resize(last - first);
      file->read(first, bytes);
      image_at = place.image - first;
      label_at = has_label ? place.label - first : 0;
    } else {
      bytes.resize(wanted);
      label_at = image_last - image_first + kTarBlock;
      file->read(image_first, std::span(bytes).first(image_last - image_first));
      file->read(label_first, std::span(bytes).subspan(label_at - kTarBlock));
    }
    const std::span<const uint8_t> all = bytes;
    check_header(all.subspan(image_at - kTarBlock, kTarBlock), place.image_size, index);
    if (has_label) {
      check_header(all.subspan(label_at - kTarBlock, kTarBlock), place.label_size, index);
      label = {reinterpret_cast<const char*>(bytes.data()) + label_at, place.label_size};
    }
    return all.subspan(image_at, place.image_size);
  }

  void check_header(std::span<const uint8_t> block, uint64_t size, int64_t index) const {
    if (is_tar_header_of(block, size)) return;
    fail<DataError>(
        "{}: the tar does not hold this sample where its index says; the tar or its index "
        "has changed: make the index again (fovea data index)",
        describe(index));
  }

  int64_t label_of(std::string_view text, int64_t index) const {
    if (label_ending_.empty()) return -1;
    const bool is_json = label_ending_ == "json" || label_ending_.ends_with(".json");
    const std::string name = fmt::format("{}.{}", describe(index), label_ending_);
    if (!is_json) return parse_wds_label(text, config_.class_names, num_classes_, name);
    const auto json = parse_json(text);
    if (!json.is_object() || !json.contains(config_.label_key)) {
      fail<DataError>("{}: expected a JSON object with the key \"{}\"; name the key in label_key",
                      name, config_.label_key);
    }
    const auto& value = json[config_.label_key];
    if (value.is_string()) {
      return parse_wds_label(value.get_ref<const std::string&>(), config_.class_names, num_classes_,
                             name);
    }
    if (!value.is_number_integer()) {
      fail<DataError>("{}: \"{}\" is neither an integer nor text", name, config_.label_key);
    }
    return parse_wds_label(json_text(value), {}, num_classes_, name);
  }

  WdsConfig config_;
  FilePool files_;
  std::vector<std::string> names_;  // of the tars, for messages
  std::vector<WdsIndex> indices_;   // of each tar; keys only
  std::vector<int64_t> first_;      // sample of each tar
  std::vector<WdsPlace> places_;    // of each sample
  std::string label_ending_;
  int64_t num_classes_ = 0;
};

}  // namespace

void WdsConfig::validate(ConfigIssues& issues) const {
  if (images.empty()) issues.add("images", "empty; name at least one ending, such as jpg");
  if (label.empty()) issues.add("label", "empty; give an ending, auto or none");
  check_class_count(num_classes, class_names, issues);
}

std::vector<std::string> wds_tars(const std::vector<std::string>& path) {
  std::vector<std::string> tars;
  for (const auto& pattern : path) {
    std::error_code error;
    if (fs::is_directory(pattern, error)) {
      const size_t before = tars.size();
      for (fs::directory_iterator entry(pattern, error), end; !error && entry != end;
           entry.increment(error)) {
        if (entry->path().extension() == ".tar") tars.push_back(entry->path().string());
      }
      if (error) fail<DataError>("{}: cannot list the folder ({})", pattern, error.message());
      if (tars.size() == before) fail<DataError>("{}: no .tar in this folder", pattern);
      std::sort(tars.begin() + static_cast<ptrdiff_t>(before), tars.end());
    } else if (fs::exists(pattern, error)) {
      tars.push_back(pattern);  // also where its name holds braces
    } else {
      for (auto& name : expand_braces(pattern)) tars.push_back(std::move(name));
    }
  }
  return tars;
}

int64_t parse_wds_label(std::string_view text, const std::vector<std::string>& class_names,
                        int64_t num_classes, const std::string& name) {
  const std::string_view word = trimmed(text);
  const auto found = std::find(class_names.begin(), class_names.end(), word);
  if (found != class_names.end()) return found - class_names.begin();
  const auto label = integer_in(word);
  if (!label) {
    fail<DataError>(
        "{}: the label is \"{}\"; expected an integer{}", name, printable(word.substr(0, 40)),
        class_names.empty() ? "; or list the names in class_names" : " or a name of class_names");
  }
  const int64_t count = num_classes > 0 ? num_classes : kMaxClasses;
  if (*label < 0 || *label >= count) {
    fail<DataError>("{}: label {}; expected 0 to {}", name, *label, count - 1);
  }
  return *label;
}

std::shared_ptr<const Dataset> build_wds_dataset(const WdsConfig& config) {
  auto tars = wds_tars(config.path);
  if (tars.empty()) fail<ConfigError>("path names no tar; give one, or a folder of tars");
  return std::make_shared<WdsDataset>(config, std::move(tars));
}

}  // namespace fovea::data
