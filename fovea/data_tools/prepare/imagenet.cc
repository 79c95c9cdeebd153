#include "fovea/data_tools/prepare/imagenet.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/parallel_for.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/text.h"
#include "fovea/core/write_all.h"
#include "fovea/core/write_error.h"
#include "fovea/data/archive/tar.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/image/decode.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/byte_source.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/input_stream.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxDevkitBytes = size_t{1} << 28;
constexpr std::string_view kTruthFile = "ILSVRC2012_validation_ground_truth.txt";

// A number a line.
std::vector<int64_t> read_truth(std::string_view text, int64_t num_classes,
                                const std::string& name) {
  std::vector<int64_t> numbers;
  for (int64_t line = 1; !text.empty(); ++line) {
    auto word = take_line(text);
    while (word.ends_with('\r') || word.ends_with(' ')) word.remove_suffix(1);
    if (word.empty() && text.empty()) break;
    const auto number = parse_number<int64_t>(word);
    if (!number || *number < 1 || *number > num_classes) {
      fail<DataError>("{}:{}: \"{}\"; expected a class, 1 to {}", name, line,
                      printable(word.substr(0, 40)), num_classes);
    }
    numbers.push_back(*number);
  }
  return numbers;
}

// A file in an archive, or in an archive inside it.
struct ImagePlace {
  uint64_t offset = 0, size = 0;
  int64_t label = 0;
};

class TarImages : public ImagenetImages {
 public:
  TarImages(const std::string& path, const ImagenetClasses& classes)
      : file_(path), classes_(classes) {}

  int64_t size() const override { return static_cast<int64_t>(places_.size()); }
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  int64_t num_classes() const override { return static_cast<int64_t>(classes_.wnids.size()); }
  uint64_t file_bytes(int64_t index) const override { return place_of(index).size; }

  void read(int64_t index, Sample& sample) const override {
    const auto& place = place_of(index);
    auto& encoded = sample.become<EncodedImage>();
    encoded.buffer.resize(place.size);
    file_.read(place.offset, encoded.buffer);
    encoded.bytes = encoded.buffer;
    sample.label = place.label;
  }

  std::string folder_path(int64_t index) const override {
    const auto& wnid = classes_.wnids[static_cast<size_t>(place_of(index).label)];
    return wnid + "/" + names_.at(index);
  }

  std::string describe(int64_t index) const override {
    return fmt::format("{}/{}", file_.name(), printable(folder_path(index)));
  }

 protected:
  void add(const TarEntry& entry, int64_t label, uint64_t first = 0) {
    if (entry.size == 0 || entry.size > static_cast<uint64_t>(kMaxImageFileBytes)) {
      fail<DataError>("{}: \"{}\" has {} bytes; expected an image", file_.name(),
                      printable(entry.name), entry.size);
    }
    if (entry.name.find('/') != std::string::npos) {
      fail<DataError>("{}: \"{}\" stands in a folder; expected images without", file_.name(),
                      printable(entry.name));
    }
    names_.add(entry.name);
    places_.push_back({first + entry.offset, entry.size, label});
  }

  FileSource file_;
  ImagenetClasses classes_;

 private:
  const ImagePlace& place_of(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    return places_[static_cast<size_t>(index)];
  }

  PathList names_;
  std::vector<ImagePlace> places_;
};

std::vector<TarEntry> list_files(const ByteSource& source) {
  std::vector<TarEntry> entries;
  TarReader reader(source);
  while (auto entry = reader.next_file()) entries.push_back(std::move(*entry));
  if (reader.num_skipped() > 0) {
    fail<DataError>("{}: \"{}\" is a link or a device; expected files", source.name(),
                    printable(reader.first_skipped()));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](auto& a, auto& b) { return a.name == b.name; });
  if (twice != entries.end()) {
    fail<DataError>("{}: \"{}\" stands there twice", source.name(), printable(twice->name));
  }
  return entries;
}

class TrainImages : public TarImages {
 public:
  TrainImages(const std::string& path, const ImagenetClasses& classes) : TarImages(path, classes) {
    std::map<std::string, TarEntry> tars;
    for (auto& entry : list_files(file_)) tars[entry.name] = entry;
    const size_t count = classes.wnids.size();
    std::vector<std::vector<TarEntry>> images(count);
    std::vector<uint64_t> first(count);
    for (size_t c = 0; c < count; ++c) {
      const auto found = tars.find(classes.wnids[c] + ".tar");
      if (found == tars.end()) {
        fail<DataError>(
            "{}: no {}.tar; the archive is not whole, or of another set than the devkit",
            file_.name(), classes.wnids[c]);
      }
    }
    if (tars.size() != count) {
      fail<DataError>("{}: {} archives for {} classes; is the devkit of the same set?",
                      file_.name(), tars.size(), count);
    }
    parallel_for(static_cast<int64_t>(count), 0, [&](int64_t i) {
      const auto c = static_cast<size_t>(i);
      const auto& tar = tars.at(classes.wnids[c] + ".tar");
      first[c] = tar.offset;
      images[c] = list_files(
          PartSource(file_, file_.name() + "/" + printable(tar.name), tar.offset, tar.size));
    });
    for (size_t c = 0; c < count; ++c) {
      if (images[c].empty()) fail<DataError>("{}/{}.tar: empty", file_.name(), classes.wnids[c]);
      for (const auto& entry : images[c]) add(entry, static_cast<int64_t>(c), first[c]);
    }
    if (classes.train_images != 0 && classes.train_images != size()) {
      log_warning(fmt::format("{}: {} images, but the publisher counts {}", file_.name(), size(),
                              classes.train_images));
    }
  }
};

// ILSVRC2012_val_00000017.JPEG is number 17.
class ValImages : public TarImages {
 public:
  ValImages(const std::string& path, const ImagenetClasses& classes) : TarImages(path, classes) {
    const auto entries = list_files(file_);
    const auto& truth = classes.ground_truth;
    if (entries.size() != truth.size()) {
      fail<DataError>(
          "{}: {} images, but the devkit has classes of {}; the archive is not whole, or of "
          "another set",
          file_.name(), entries.size(), truth.size());
    }
    for (size_t i = 0; i < entries.size(); ++i) {  // sorted by name, which ends in a number
      const auto& name = entries[i].name;
      const size_t dot = std::min(name.find('.'), name.size());
      size_t digits = dot;
      while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
      size_t number = 0;
      std::from_chars(name.data() + digits, name.data() + dot, number);
      if (number != i + 1) {
        fail<DataError>("{}: \"{}\" stands where image {} is expected", file_.name(),
                        printable(name), i + 1);
      }
      add(entries[i], truth[i]);
    }
  }
};

// A file that is whole under its name. Not AtomicFile: a million calls of fsync take hours; after a
// power cut the sizes are compared when the same command runs again.
void write_whole(const fs::path& path, std::span<const uint8_t> bytes) {
  const fs::path temporary = path.parent_path() / ("." + path.filename().string() + ".part");
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool is_good = file >= 0 && write_all(file, std::as_bytes(bytes));
  if (file >= 0) is_good = close(file) == 0 && is_good;
  if (is_good && rename(temporary.c_str(), path.c_str()) == 0) return;
  const std::error_code error(errno, std::generic_category());
  unlink(temporary.c_str());
  fail<WriteError>("{}: cannot be written ({}); free space or choose another folder",
                   printable(path.string()), error.message());
}

void sync_disk_of(const std::string& folder) {
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  syncfs(file);
  close(file);
}

}  // namespace

ImagenetClasses imagenet_classes(const std::vector<std::pair<std::string, std::string>>& by_number,
                                 int64_t train_images) {
  const std::map<std::string, std::string> sorted(by_number.begin(), by_number.end());
  FOVEA_CHECK(sorted.size() == by_number.size(), "a WNID stands twice");
  ImagenetClasses classes;
  classes.train_images = train_images;
  for (const auto& [wnid, name] : sorted) {
    classes.wnids.push_back(wnid);
    classes.names.push_back(name);
  }
  for (const auto& entry : by_number)
    classes.by_number.push_back(std::distance(sorted.begin(), sorted.find(entry.first)));
  return classes;
}

void read_imagenet_devkit(const std::string& path, ImagenetClasses& classes) {
  const MemorySource source(printable(path), read_gzip(path, kMaxDevkitBytes));
  std::optional<TarEntry> truth;
  TarReader reader(source);
  while (auto entry = reader.next_file()) {
    if (fs::path(entry->name).filename() == kTruthFile) truth = entry;
  }
  if (!truth) {
    fail<DataError>("{}: no {}; expected ILSVRC2012_devkit_t12.tar.gz", source.name(), kTruthFile);
  }
  std::vector<uint8_t> text(truth->size);
  source.read(truth->offset, text);
  const auto numbers = read_truth({reinterpret_cast<const char*>(text.data()), text.size()},
                                  static_cast<int64_t>(classes.wnids.size()),
                                  fmt::format("{}/{}", source.name(), kTruthFile));
  classes.ground_truth.clear();
  for (const int64_t number : numbers)
    classes.ground_truth.push_back(classes.by_number[static_cast<size_t>(number - 1)]);
}

std::shared_ptr<const ImagenetImages> open_imagenet_train(const std::string& path,
                                                          const ImagenetClasses& classes) {
  return std::make_shared<TrainImages>(path, classes);
}

std::shared_ptr<const ImagenetImages> open_imagenet_val(const std::string& path,
                                                        const ImagenetClasses& classes) {
  return std::make_shared<ValImages>(path, classes);
}

UnpackReport unpack_images(const ImagenetImages& images, const std::string& out, int64_t threads,
                           const std::function<void(int64_t, int64_t)>& progress) {
  constexpr int64_t kBlock = 256;
  UnpackReport report{images.size(), 0};
  for (int64_t first = 0; first < images.size(); first += kBlock) {
    const int64_t count = std::min(kBlock, images.size() - first);
    std::vector<int64_t> is_kept(static_cast<size_t>(count), 0);
    parallel_for(count, threads, [&](int64_t i) {
      thread_local Sample sample;
      const auto path = fs::path(out) / images.folder_path(first + i);
      std::error_code error;
      const auto size = fs::file_size(path, error);
      if (!error && size == images.file_bytes(first + i)) {
        is_kept[static_cast<size_t>(i)] = 1;
        return;
      }
      images.read(first + i, sample);
      fs::create_directories(path.parent_path());
      write_whole(path, sample.as<EncodedImage>().bytes);
    });
    report.resumed += std::accumulate(is_kept.begin(), is_kept.end(), int64_t{0});
    if (progress) progress(first + count, images.size());
  }
  sync_disk_of(out);
  return report;
}

ImagenetReport prepare_imagenet(const ImagenetOptions& options, ImagenetClasses classes) {
  if (options.to != "folder" && options.to != "wds" && options.to != "packed") {
    fail<ConfigError>("to={}; expected folder, wds or packed", options.to);
  }
  read_imagenet_devkit(options.devkit, classes);
  const auto train = open_imagenet_train(options.train, classes);
  const auto val = open_imagenet_val(options.val, classes);
  ImagenetReport report{static_cast<int64_t>(classes.wnids.size()), train->size(), val->size(), 0};
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) fail<WriteError>("{}: cannot be made ({})", printable(options.out), error.message());
  std::string lines;
  for (size_t c = 0; c < classes.wnids.size(); ++c) {
    lines += classes.wnids[c] + "\t" + classes.names[c] + "\n";
  }
  write_file_atomic((fs::path(options.out) / "classes.txt").string(), lines);
  for (const bool is_train : {true, false}) {
    const auto& images = is_train ? *train : *val;
    const auto out = (fs::path(options.out) / (is_train ? "train" : "val")).string();
    if (options.to == "folder") {
      report.resumed +=
          unpack_images(images, out, options.pack.threads, options.pack.progress).resumed;
      continue;
    }
    PackOptions pack = options.pack;
    pack.out = out;
    pack.to = options.to;
    if (options.to == "wds" && is_train && !pack.shuffle_seed) pack.shuffle_seed = 0;
    if (!is_train) pack.shuffle_seed.reset();
    report.resumed += pack_dataset(images, pack).resumed;
  }
  return report;
}

}  // namespace fovea::data
