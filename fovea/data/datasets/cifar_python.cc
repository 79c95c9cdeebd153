#include "fovea/data/datasets/cifar_python.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/missing_file.h"
#include "fovea/core/nearest.h"
#include "fovea/data/archive/tar.h"
#include "fovea/data/datasets/cifar.h"
#include "fovea/data/datasets/numpy_pickle.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/input_stream.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxArchiveBytes = size_t{1} << 31;
constexpr uint64_t kMaxPickleBytes = uint64_t{1} << 30;

struct PythonVariant {
  const char* archive;
  const char* folder;  // in the archive
  int64_t num_classes;
  std::vector<std::string> train_files, test_files;
  const char* meta_file;
  const char* names_key;
  const char* labels_key;
};

const PythonVariant& variant_named(bool is_100, bool is_coarse) {
  static const PythonVariant kCifar10 = {
      "cifar-10-python.tar.gz",
      "cifar-10-batches-py",
      10,
      {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
      {"test_batch"},
      "batches.meta",
      "label_names",
      "labels"};
  static const PythonVariant kFine = {
      "cifar-100-python.tar.gz", "cifar-100-python", 100, {"train"}, {"test"}, "meta",
      "fine_label_names",        "fine_labels"};
  static const PythonVariant kCoarse = {
      "cifar-100-python.tar.gz", "cifar-100-python", 20, {"train"}, {"test"}, "meta",
      "coarse_label_names",      "coarse_labels"};
  if (!is_100) return kCifar10;
  return is_coarse ? kCoarse : kFine;
}

using Members = std::map<std::string, std::vector<uint8_t>>;  // "cifar-100-python/train"

// The files of the archive that belong to either variant.
Members read_archive(const std::string& path) {
  auto bytes = read_gzip(path, kMaxArchiveBytes + 1);
  if (bytes.size() > kMaxArchiveBytes)
    fail<DataError>("{}: more than {} bytes unpacked", printable(path), kMaxArchiveBytes);
  const MemorySource source(printable(path), std::move(bytes));
  TarReader reader(source);
  Members members;
  while (const auto entry = reader.next()) {
    if (entry->kind == TarKind::kLink || entry->kind == TarKind::kDevice) {
      fail<DataError>("{}: {} is a link or a device, which the publisher's archive has none of",
                      source.name(), printable(entry->name));
    }
    const bool is_known = entry->name.starts_with("cifar-10-batches-py/") ||
                          entry->name.starts_with("cifar-100-python/");
    if (entry->kind != TarKind::kFile || !is_known) continue;
    std::vector<uint8_t> member(entry->size);
    source.read(entry->offset, member);
    if (!members.emplace(entry->name, std::move(member)).second)
      fail<DataError>("{}: {} stands there twice", source.name(), printable(entry->name));
  }
  return members;
}

// The files of an unpacked archive, under the names that they had in it.
Members read_folder(const fs::path& folder, const PythonVariant& variant) {
  Members members;
  std::vector<std::string> names = variant.train_files;
  names.insert(names.end(), variant.test_files.begin(), variant.test_files.end());
  names.emplace_back(variant.meta_file);
  for (const std::string& name : names) {
    if (!is_there(folder / name)) continue;
    const std::string bytes = read_file((folder / name).string(), kMaxPickleBytes);
    members[fmt::format("{}/{}", variant.folder, name)] = {bytes.begin(), bytes.end()};
  }
  return members;
}

Members find_members(const std::string& path) {
  if (!is_there(path))
    fail<MissingFileError>("{}: no such file or folder{}", printable(path), or_nearest_path(path));
  if (!is_folder(path)) return read_archive(path);
  for (const bool is_100 : {false, true}) {
    const PythonVariant& variant = variant_named(is_100, false);
    for (const fs::path& folder : {fs::path(path), fs::path(path) / variant.folder}) {
      Members members = read_folder(folder, variant);
      if (!members.empty()) return members;
    }
    const fs::path archive = fs::path(path) / variant.archive;
    if (is_there(archive)) return read_archive(archive.string());
  }
  return {};
}

const PickleValue& value_of(const PickleValue& dict, const char* key, PickleValue::Kind kind,
                            const std::string& source) {
  const PickleValue* value = dict.find(key);
  if (value == nullptr || value->kind != kind) {
    fail<DataError>("{}: \"{}\" is {}; expected {}", source, key,
                    value == nullptr ? "missing" : name_of(value->kind), name_of(kind));
  }
  return *value;
}

CifarPart read_batch(std::vector<uint8_t> bytes, const std::string& source,
                     const PythonVariant& variant) {
  const PickleOptions options{.names = numpy_pickle_names()};
  const auto pickle = std::make_shared<const Pickle>(std::move(bytes), source, options);
  const PickleValue& root = pickle->root();
  const auto data = numpy_array(value_of(root, "data", PickleValue::Kind::kCall, source), source);
  const PickleValue& labels = value_of(root, variant.labels_key, PickleValue::Kind::kList, source);
  if (data.type.type != ScalarType::kUint8 || data.shape.size() != 2 ||
      data.shape[1] != kCifarPixels || data.shape[0] != static_cast<int64_t>(labels.items.size())) {
    fail<DataError>("{}: {} [{}] with {} labels; expected uint8 [N, {}] with N labels", source,
                    name_of(data.type.type), fmt::join(data.shape, ", "), labels.items.size(),
                    kCifarPixels);
  }
  CifarPart part{source, pickle, data.bytes.data()};
  for (const PickleValue* label : labels.items) {
    const bool is_class = label->kind == PickleValue::Kind::kInt && label->integer >= 0 &&
                          label->integer < variant.num_classes;
    if (!is_class) {
      fail<DataError>("{}: label {} of image {}; expected 0 to {}", source, label->integer,
                      part.labels.size(), variant.num_classes - 1);
    }
    part.labels.push_back(label->integer);
  }
  return part;
}

std::vector<std::string> read_names(std::vector<uint8_t> bytes, const std::string& source,
                                    const PythonVariant& variant) {
  const Pickle pickle(std::move(bytes), source, {.names = numpy_pickle_names()});
  const auto& list = value_of(pickle.root(), variant.names_key, PickleValue::Kind::kList, source);
  std::vector<std::string> names;
  for (const PickleValue* name : list.items) {
    if (name->is_text()) names.push_back(printable(name->text));
  }
  if (static_cast<int64_t>(names.size()) != variant.num_classes) {
    fail<DataError>("{}: {} class names; expected {}", source, names.size(), variant.num_classes);
  }
  return names;
}

}  // namespace

std::shared_ptr<const Dataset> build_cifar_python_dataset(const CifarPythonConfig& config) {
  Members members = find_members(config.path);
  const bool is_100 = std::any_of(members.begin(), members.end(), [](const auto& member) {
    return member.first.starts_with("cifar-100-python/");
  });
  const PythonVariant& variant = variant_named(is_100, config.labels == "coarse");
  const auto source_of = [&](const std::string& name) {
    return fmt::format("{}:{}", printable(fs::path(config.path).filename().string()), name);
  };
  std::vector<CifarPart> batches;
  for (const auto& file : config.split == "train" ? variant.train_files : variant.test_files) {
    const auto found = members.find(fmt::format("{}/{}", variant.folder, file));
    if (found == members.end()) continue;
    batches.push_back(read_batch(std::move(found->second), source_of(file), variant));
  }
  std::erase_if(batches, [](const CifarPart& batch) { return batch.labels.empty(); });
  if (batches.empty()) {
    fail<DataError>(
        "{}: found no {} file of CIFAR's Python version (cifar-10-batches-py/data_batch_1 to _5 "
        "and test_batch, or cifar-100-python/train and test)",
        printable(config.path), config.split);
  }
  std::vector<std::string> names;
  const auto meta = members.find(fmt::format("{}/{}", variant.folder, variant.meta_file));
  if (meta != members.end())
    names = read_names(std::move(meta->second), source_of(variant.meta_file), variant);
  return build_cifar_parts(std::move(batches), variant.num_classes, std::move(names));
}

}  // namespace fovea::data
