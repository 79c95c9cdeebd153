// Bad input in sets whose samples lie in a few large files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/archive/packed_format.h"
#include "fovea/data/bad_samples.h"
#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/cifar.h"
#include "fovea/data/datasets/cifar_python.h"
#include "fovea/data/datasets/hdf5.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/medmnist.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "tests/data/bad_input_support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using testing::DiskFault;
using testing::edit;
using testing::expect_policies;
using testing::expect_refused;
using testing::FailingDisk;
using testing::file_bytes;
using testing::folder_set;
using testing::golden_file;
using testing::golden_values;
using testing::gzip;
using testing::Harm;
using ::testing::HasSubstr;
using testing::kSetSize;
using testing::message_of;
using testing::replaced;
using testing::shrinks;
using testing::small_image;
using testing::SmallSet;
using testing::tar_of;
using testing::TempDir;
using testing::to_text;
using testing::truncated;

testing::NamedBytes tar_files() {
  testing::NamedBytes files;
  for (int64_t i = 0; i < kSetSize; ++i) {
    files.emplace_back(fmt::format("k{}.jpg", i), to_text(small_image(i, false)));
    files.emplace_back(fmt::format("k{}.cls", i), std::to_string(i % 2));
  }
  return files;
}

std::shared_ptr<const Dataset> open_tar(const TempDir& dir) {
  return build_dataset({WdsConfig{.path = {dir.path() + "/t.tar"}, .num_classes = 2}});
}

const SmallSet kTarSet = {
    "wds", [](const TempDir& dir) { dir.write("t.tar", testing::to_bytes(tar_of(tar_files()))); },
    open_tar};

// Writes the tar with `change` made to its files.
template <class F>
Harm other_tar(const std::string& fault, int64_t sample, const std::string& reason, F change) {
  return {.fault = fault,
          .sample = sample,
          .act =
              [change](const TempDir& dir) {
                auto files = tar_files();
                change(files);
                dir.write("t.tar", testing::to_bytes(tar_of(files)));
                return nullptr;
              },
          .name = fmt::format("t.tar/k{}", sample),
          .reason = reason};
}

// Where the bytes of sample i's image begin in a file that holds them, and how many there are.
std::pair<int64_t, int64_t> place_of_image(const std::string& path, int64_t i) {
  const std::string all = to_text(file_bytes(path)), image = to_text(small_image(i, false));
  const size_t at = all.find(image);
  EXPECT_NE(at, std::string::npos);
  return {static_cast<int64_t>(at), static_cast<int64_t>(image.size())};
}

// A page in the middle of a sample cannot be read.
Harm bad_sector(const std::string& file, int64_t sample, const std::string& name) {
  return {.fault = "EIO",
          .sample = sample,
          .act = [=](const TempDir& dir) -> std::shared_ptr<void> {
            const auto [at, size] = place_of_image(dir.file(file), sample);
            EXPECT_GT(size, 8192);
            return std::make_shared<FailingDisk>(dir.file(file), DiskFault::kEio, at + 4096,
                                                 at + 4097);
          },
          .is_during_run = true,
          .name = name,
          .reason = "Input/output error"};
}

// The last sample is cut while the set is open.
Harm loses_its_end(const std::string& file, const std::string& name, const std::string& reason) {
  return {.fault = "shrinks",
          .sample = kSetSize - 1,
          .act =
              [=](const TempDir& dir) {
                const auto [at, size] = place_of_image(dir.file(file), kSetSize - 1);
                fs::resize_file(dir.file(file), static_cast<uintmax_t>(at + size / 2));
                return nullptr;
              },
          .is_during_run = true,
          .name = name,
          .reason = reason};
}

TEST(BadArchivesTest, SamplesOfATar) {
  using Files = testing::NamedBytes;
  expect_policies(kTarSet, other_tar("truncated JPEG", 2, "truncated", [](Files& files) {
                    files[4].second.resize(files[4].second.size() / 2);
                  }));
  expect_policies(kTarSet, other_tar("wrong magic", 4, "not an image",
                                     [](Files& files) { files[8].second = "GIF89a"; }));
  expect_policies(kTarSet, other_tar("label that is none", 3, "the label is \"cat\"",
                                     [](Files& files) { files[7].second = "cat"; }));
  expect_policies(kTarSet, other_tar("label out of range", 3, "label 2; expected 0 to 1",
                                     [](Files& files) { files[7].second = "2"; }));
  expect_policies(kTarSet, bad_sector("t.tar", 2, "t.tar"));
  expect_policies(kTarSet, loses_its_end("t.tar", "t.tar", "became shorter"));
}

TEST(BadArchivesTest, TarsThatAreRefused) {
  using Files = testing::NamedBytes;
  expect_refused(kTarSet, truncated("t.tar", "the archive is truncated"));
  expect_refused(kTarSet, replaced("t.tar", "wrong magic", std::string(2048, 'x'), "t.tar"));
  auto refused = other_tar("..", 0, "leads out of the archive",
                           [](Files& files) { files[4].first = "../k2.jpg"; });
  refused.name = "t.tar";
  expect_refused(kTarSet, refused);
  refused = other_tar("absolute name", 0, "leads out of the archive",
                      [](Files& files) { files[4].first = "/k2.jpg"; });
  refused.name = "t.tar";
  expect_refused(kTarSet, refused);
  refused = other_tar("a key twice", 0, "two samples have the key \"k2\"",
                      [](Files& files) { files[8].first = "k2.jpg", files[9].first = "k2.cls"; });
  refused.name = "t.tar";
  expect_refused(kTarSet, refused);
  refused = other_tar("a file twice", 0, "\"k2.jpg\" stands twice in the sample",
                      [](Files& files) { files[5].first = "k2.jpg"; });
  refused.name = "t.tar";
  expect_refused(kTarSet, refused);
  expect_refused(kTarSet, other_tar("no image", 2, "a sample without image",
                                    [](Files& files) { files[4].first = "k2.txt"; }));
  // A link is no file: what is left of its sample has no image.
  expect_refused(kTarSet, {.fault = "link",
                           .act = edit("t.tar",
                                       [](auto& bytes) {
                                         std::string tar = to_text(bytes);
                                         const size_t header = tar.find("k2.jpg");
                                         tar[header + 156] = '2';
                                         testing::sign_tar_header(tar, header);
                                         bytes = testing::to_bytes(tar);
                                       }),
                           .name = "t.tar",
                           .reason = ""});
}

SmallSet packed_set(bool is_raw) {
  return {is_raw ? "packed, raw" : "packed",
          [is_raw](const TempDir& dir) {
            folder_set(false).write(dir);
            PackOptions options;
            options.out = dir.path() + "/out";
            options.raw = is_raw;
            pack_dataset(*folder_set(false).open(dir), options);
          },
          [](const TempDir& dir) {
            return build_dataset({PackedConfig{.path = dir.path() + "/out"}});
          }};
}

TEST(BadArchivesTest, SamplesOfAPackedSet) {
  const std::string file = "out/shard_000000.fvp";
  const auto set = packed_set(false);
  const auto flip = [](int64_t sample) {
    return [sample](const TempDir& dir) {
      const std::string path = dir.file("out/shard_000000.fvp");
      auto bytes = file_bytes(path);
      const auto [at, size] = place_of_image(path, sample);
      bytes[static_cast<size_t>(at + size / 2)] ^= 1;
      dir.write("out/shard_000000.fvp", bytes);
      return nullptr;
    };
  };
  expect_policies(set, {.fault = "a bit turned",
                        .sample = 1,
                        .act = flip(1),
                        .name = "shard_000000.fvp[1]",
                        .reason = "the checksum is wrong"});
  expect_policies(set, {.fault = "a bit turned during the run",
                        .sample = 4,
                        .act = flip(4),
                        .is_during_run = true,
                        .name = "shard_000000.fvp[4]",
                        .reason = "the checksum is wrong"});
  expect_policies(set, bad_sector(file, 2, "shard_000000.fvp"));
  expect_policies(set, loses_its_end(file, "shard_000000.fvp", "must not change during a run"));
  const auto raw = packed_set(true);
  const auto half = [&](const TempDir& dir) {
    const std::string path = dir.file(file);
    // Pixels of sample 5 begin behind those of the others.
    int64_t at = kPackedHeaderBytes;
    for (int64_t i = 0; i < 5; ++i) at += 3 * (180 + 4 * i) * (190 - 3 * i);
    fs::resize_file(path, static_cast<uintmax_t>(at + 50'000));
    return nullptr;
  };
  expect_policies(raw, {.fault = "shrinks",
                        .sample = 5,
                        .act = half,
                        .is_during_run = true,
                        .name = "shard_000000.fvp",
                        .reason = "must not change during a run"});
}

TEST(BadArchivesTest, PackedSetsThatAreRefused) {
  const auto set = packed_set(false);
  const std::string shard = "out/shard_000000.fvp";
  expect_refused(set, truncated(shard, "but the manifest has"));
  expect_refused(set, replaced("out/manifest.json", "wrong magic", "{}", "not the manifest"));
  expect_refused(set, {.fault = "wrong magic",
                       .act = edit(shard, [](auto& bytes) { bytes[bytes.size() - 1] ^= 1; }),
                       .name = shard,
                       .reason = ""});
  expect_refused(
      set,
      {.fault = "index that overflows",
       .act = edit(shard, [](auto& bytes) { std::fill_n(bytes.end() - 64, 16, uint8_t{0xff}); }),
       .name = shard,
       .reason = ""});
}

// Cuts a mapped shard between the moment its bytes are asked for and the moment they are decoded.
class CutWhileRead : public DatasetView {
 public:
  CutWhileRead(std::shared_ptr<const Dataset> source, std::string path)
      : DatasetView(std::move(source)), path_(std::move(path)) {}
  void read(int64_t index, Sample& sample) const override {
    source_->read(index, sample);
    if (index == 3) fs::resize_file(path_, 4096);
  }

 private:
  std::string path_;
};

TEST(BadArchivesTest, AShardCutWhileASampleIsDecoded) {
  const TempDir dir;
  const auto set = packed_set(false);
  set.write(dir);
  const auto pipeline = std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{{RandomResizedCropConfig{.size = {12}}}, {NormalizeConfig{}}},
      3);
  const auto dataset =
      std::make_shared<CutWhileRead>(set.open(dir), dir.file("out/shard_000000.fvp"));
  Loader loader(dataset, pipeline,
                {.global_batch_size = 6,
                 .shuffle = false,
                 .threads = 1,
                 .bad_samples = {.policy = BadSamplePolicy::kSkip, .budget = 6}});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.weights, (std::vector<float>{1, 1, 1, 0, 0, 0}));
  ASSERT_EQ(loader.bad_samples().size(), 3u);
  EXPECT_EQ(loader.bad_samples()[0].index, 3);
  EXPECT_THAT(loader.bad_samples()[1].reason, HasSubstr("4096 bytes now"));
}

// Sets that are read whole when they are opened.
TEST(BadArchivesTest, FilesThatAreReadWhole) {
  const SmallSet idx = {
      "idx",
      [](const TempDir& dir) {
        dir.write("i.gz", gzip(testing::idx_bytes({6, 9, 9}, std::vector<uint8_t>(486, 5))));
        dir.write("l", testing::idx_bytes({6}, {0, 1, 2, 0, 1, 2}));
      },
      [](const TempDir& dir) {
        return build_dataset(
            {IdxConfig{.images = dir.path() + "/i.gz", .labels = dir.path() + "/l"}});
      }};
  expect_refused(idx, truncated("i.gz", "truncated"));
  expect_refused(idx, replaced("l", "wrong magic", "PK..........", "not an IDX file"));
  expect_refused(idx,
                 replaced("i.gz", "sizes that overflow",
                          to_text(testing::idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, {})),
                          "multiply to more than any file holds"));
  expect_refused(idx, testing::disk_fails("l"));
  expect_refused(idx, testing::disk_fails("i.gz"));
  expect_refused(idx, testing::becomes_a_pipe("l"));
  expect_refused(idx, testing::becomes_a_pipe("i.gz"));
  const SmallSet cifar = {
      "cifar",
      [](const TempDir& dir) { dir.write("data_batch_1.bin", std::vector<uint8_t>(2 * 3073, 7)); },
      [](const TempDir& dir) { return build_dataset({CifarConfig{.path = dir.path()}}); }};
  expect_refused(cifar, {.fault = "truncated",
                         .act = edit("data_batch_1.bin", [](auto& b) { b.resize(5000); }),
                         .name = "data_batch_1.bin",
                         .reason = "truncated"});
  expect_refused(cifar, {.fault = "label out of range",
                         .act = edit("data_batch_1.bin", [](auto& b) { b[3073] = 99; }),
                         .name = "data_batch_1.bin",
                         .reason = "record 1 has label 99"});
  expect_refused(cifar, testing::disk_fails("data_batch_1.bin"));
  const std::string archive = "cifar-10-python.tar.gz";
  const SmallSet python = {
      "cifar_python",
      [=](const TempDir& dir) { dir.write(archive, golden_file("cifar." + archive)); },
      [=](const TempDir& dir) {
        return build_dataset({CifarPythonConfig{.path = dir.file(archive)}});
      }};
  expect_refused(python, truncated(archive, "truncated"));
  expect_refused(python, testing::disk_fails(archive));
  expect_refused(python, replaced(archive, "wrong magic", std::string(600, 'x'), ""));
}

SmallSet npz_set(const std::string& golden, bool is_medmnist) {
  return {is_medmnist ? "medmnist" : "npz",
          [=](const TempDir& dir) { dir.write("a.npz", golden_file("zip." + golden)); },
          [=](const TempDir& dir) {
            if (is_medmnist) return build_dataset({MedMnistConfig{.path = dir.path() + "/a.npz"}});
            return build_dataset({NpzConfig{.path = dir.path() + "/a.npz"}});
          },
          /*has_volumes=*/!is_medmnist};
}

// A number of the second sample of the golden arrays becomes NaN. bytes: a file that holds them.
void put_nan(std::vector<uint8_t>& bytes, size_t at) {
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + at, &nan, sizeof nan);
}

size_t place_in(const std::vector<uint8_t>& bytes, const std::vector<float>& values, size_t first,
                size_t count) {
  const std::string text(reinterpret_cast<const char*>(values.data() + first), 4 * count);
  const size_t at = to_text(bytes).find(text);
  EXPECT_NE(at, std::string::npos);
  return at;
}

// Replaces the checksum of a zip's member in its header and in the directory.
void put_checksum(std::vector<uint8_t>& zip, uint32_t from, uint32_t to) {
  int found = 0;
  for (size_t i = 0; i + 4 <= zip.size(); ++i) {
    if (std::memcmp(zip.data() + i, &from, 4) != 0) continue;
    std::memcpy(zip.data() + i, &to, 4);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST(BadArchivesTest, ArraysInZips) {
  for (const bool is_medmnist : {false, true}) {
    const auto set = npz_set(is_medmnist ? "medmnist_color.npz" : "deflated.npz", is_medmnist);
    expect_refused(set, truncated("a.npz", "truncated"));
    expect_refused(set, replaced("a.npz", "wrong magic", "hello", "not a zip archive"));
    expect_refused(set, testing::disk_fails("a.npz"));
    expect_refused(set, {.fault = "a bit turned",
                         .act = edit("a.npz", [](auto& bytes) { bytes[200] ^= 4; }),
                         .name = "a.npz",
                         .reason = ""});
  }
  const auto set = npz_set("stored.npz", false);
  expect_refused(set,
                 {.fault = "pickled",
                  .act = edit("a.npz", [](auto& bytes) { bytes = golden_file("zip.objects.npz"); }),
                  .name = "a.npz",
                  .reason = ""});
  expect_policies(
      set, {.fault = "NaN",
            .sample = 1,
            .act = edit("a.npz",
                        [](auto& bytes) {
                          const auto values = golden_values<float>("values.npz");
                          const size_t data = place_in(bytes, values, 0, 240);
                          const size_t first = to_text(bytes).rfind("\x93NUMPY", data);
                          const auto size = static_cast<unsigned>(data + 960 - first);
                          const auto old = crc32(0, bytes.data() + first, size);
                          put_nan(bytes, data + 4 * 130);
                          put_checksum(bytes, static_cast<uint32_t>(old),
                                       static_cast<uint32_t>(crc32(0, bytes.data() + first, size)));
                        }),
            .name = "a.npz:images[1]",
            .reason = "1 of 120 values are NaN"});
}

TEST(BadArchivesTest, Hdf5) {
  const SmallSet set = {
      "hdf5", [](const TempDir& dir) { dir.write("a.h5", golden_file("hdf5.a")); },
      [](const TempDir& dir) { return build_dataset({Hdf5Config{.path = dir.path() + "/a.h5"}}); },
      /*has_volumes=*/true};
  const TempDir dir;
  set.write(dir);
  try {
    set.open(dir);
  } catch (const ConfigError&) {
    GTEST_SKIP() << "built without HDF5";
  }
  expect_refused(set, truncated("a.h5", "cannot be opened as HDF5"));
  expect_refused(set, replaced("a.h5", "wrong magic", "hello", "cannot be opened as HDF5"));
  expect_refused(set, testing::disk_fails("a.h5", "cannot be opened as HDF5"));
  const auto place = [](const std::vector<uint8_t>& bytes) {
    return place_in(bytes, golden_values<float>("values.npz"), 120, 10);
  };
  // The chunk of the second sample is compressed, and holds its numbers as they are.
  expect_policies(set, {.fault = "a bit turned",
                        .sample = 1,
                        .act = edit("a.h5", [=](auto& bytes) { bytes[place(bytes) + 8] ^= 1; }),
                        .name = "a.h5:images[1]",
                        .reason = "cannot be read; the file is damaged"});
  expect_policies(set, {.fault = "EIO",
                        .sample = 1,
                        .act = [=](const TempDir& where) -> std::shared_ptr<void> {
                          const std::string path = where.file("a.h5");
                          const auto at = static_cast<int64_t>(place(file_bytes(path)));
                          return std::make_shared<FailingDisk>(path, DiskFault::kEio, at, at + 4);
                        },
                        .name = "a.h5:images[1]",
                        .reason = "cannot be read; the file is damaged"});
}

}  // namespace
}  // namespace fovea::data
