// Small real data sets of every format, each with one sample that a test harms.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/image/png.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/data_tools/pack/pack.h"
#include "fovea/files/npy.h"
#include "tests/data/archive_support.h"
#include "tests/data/failing_disk.h"
#include "tests/data/golden_files.h"
#include "tests/data/jpeg_writer.h"

namespace fovea::data::testing {

constexpr int64_t kSetSize = 6;  // samples of a set, where the format leaves it open

// One kind of data set: how it is written and opened.
struct SmallSet {
  std::string format;
  std::function<void(const TempDir&)> write;
  std::function<std::shared_ptr<const Dataset>(const TempDir&)> open;
  bool has_volumes = false;  // takes transforms of volumes
};

// What is done to one sample.
struct Harm {
  std::string fault;
  int64_t sample = 2;  // that becomes bad
  // Does it; what comes back is kept as long as the set is read.
  std::function<std::shared_ptr<void>(const TempDir&)> act;
  bool is_during_run = false;  // the set is opened before
  std::string name, reason;    // parts of the message
};

// Harms the sample and reads the set under every policy, with one thread and with four: the message
// names sample and reason, the sample is counted, the other rows are those of the unharmed set, and
// threads make no difference.
void expect_policies(const SmallSet& set, const Harm& harm);
// The harmed set cannot be opened, whatever the policy; the message names the file and the reason.
void expect_refused(const SmallSet& set, const Harm& harm);

inline std::vector<uint8_t> file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Changes the bytes of a file.
template <class F>
std::function<std::shared_ptr<void>(const TempDir&)> edit(const std::string& name, F change) {
  return [name, change](const TempDir& dir) -> std::shared_ptr<void> {
    auto bytes = file_bytes(dir.file(name));
    change(bytes);
    dir.write(name, bytes);
    return nullptr;
  };
}

inline Harm truncated(const std::string& name, const std::string& reason = "truncated") {
  return {.fault = "truncated",
          .act = edit(name, [](auto& bytes) { bytes.resize(bytes.size() / 2); }),
          .name = name,
          .reason = reason};
}

inline Harm replaced(const std::string& name, const std::string& fault, const std::string& text,
                     const std::string& reason) {
  return {.fault = fault,
          .act = edit(name, [text](auto& bytes) { bytes.assign(text.begin(), text.end()); }),
          .name = name,
          .reason = reason};
}

inline Harm vanishes(const std::string& name, const std::string& reason = "No such file") {
  return {.fault = "vanishes",
          .act =
              [name](const TempDir& dir) {
                std::filesystem::remove(dir.file(name));
                return nullptr;
              },
          .is_during_run = true,
          .name = name,
          .reason = reason};
}

// A pipe that nobody writes to: opening it as a file would wait for ever.
inline Harm becomes_a_pipe(const std::string& name,
                           const std::string& reason = "not a regular file") {
  return {.fault = "becomes a pipe",
          .act =
              [name](const TempDir& dir) {
                std::filesystem::remove(dir.file(name));
                EXPECT_EQ(mkfifo(dir.file(name).c_str(), 0600), 0);
                return nullptr;
              },
          .is_during_run = true,
          .name = name,
          .reason = reason};
}

inline Harm shrinks(const std::string& name, int64_t size, const std::string& reason) {
  return {.fault = fmt::format("shrinks to {} bytes", size),
          .act =
              [name, size](const TempDir& dir) {
                std::filesystem::resize_file(dir.file(name), static_cast<uintmax_t>(size));
                return nullptr;
              },
          .is_during_run = true,
          .name = name,
          .reason = reason};
}

inline Harm disk_fails(const std::string& name, const std::string& reason = "Input/output error") {
  return {.fault = "EIO",
          .act = [name](const TempDir& dir) -> std::shared_ptr<void> {
            return std::make_shared<FailingDisk>(dir.file(name), DiskFault::kEio);
          },
          .is_during_run = true,
          .name = name,
          .reason = reason};
}

// A set of images in class folders, as JPEG or PNG: a/0, a/1, a/2, b/3, b/4, b/5.
inline std::vector<uint8_t> small_image(int64_t i, bool is_png) {
  const ImageSize size = {180 + 4 * i, 190 - 3 * i};
  if (!is_png) return write_jpeg(size, {});
  Image image = {size.height, size.width, 3, {}};
  for (int64_t p = 0; p < 3 * size.height * size.width; ++p)
    image.pixels.push_back(static_cast<uint8_t>((p * 7919 + i * 31) % 251));
  return encode_png(image);
}

inline SmallSet folder_set(bool is_png) {
  return {
      is_png ? "folder of PNG" : "folder of JPEG",
      [is_png](const TempDir& dir) {
        for (int64_t i = 0; i < kSetSize; ++i) {
          dir.write(fmt::format("in/{}/{}.{}", i < 3 ? "a" : "b", i, is_png ? "png" : "jpg"),
                    small_image(i, is_png));
        }
      },
      [](const TempDir& dir) { return build_dataset({FolderConfig{.path = dir.path() + "/in"}}); }};
}

// Faults that all formats of image files have in common.
inline std::vector<Harm> image_file_harms(const std::string& name, int64_t sample) {
  std::vector<Harm> harms = {
      truncated(name),
      replaced(name, "wrong magic", "GIF89a and so on", "not an image: it starts with \"GIF89a"),
      replaced(name, "empty", "", "the file is empty"),
      vanishes(name),
      becomes_a_pipe(name),
      disk_fails(name),
      shrinks(name, 700, "truncated"),
      shrinks(name, 0, "the file is empty"),
  };
  for (Harm& harm : harms) harm.sample = sample;
  return harms;
}

inline Volume small_volume(int64_t i) {
  Volume volume{.channels = 1, .size = {4, 5, 6}, .values = {}};
  for (int64_t v = 0; v < 120; ++v)
    volume.values.push_back(static_cast<float>(100 * i + (v * 37) % 101));
  return volume;
}

inline LabelMap small_mask(int64_t i) {
  LabelMap mask{.size = {4, 5, 6}, .classes = {}};
  for (int64_t v = 0; v < 120; ++v) mask.classes.push_back(static_cast<int32_t>((v + i) % 3));
  return mask;
}

}  // namespace fovea::data::testing
