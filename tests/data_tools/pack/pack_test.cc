#include "fovea/data_tools/pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <csignal>
#include <set>

#include "fovea/core/files.h"
#include "fovea/data/archive/packed_format.h"
#include "fovea/data/datasets/find_datasets.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/wds.h"
#include "fovea/data/image/jpeg.h"
#include "fovea/data/loader.h"
#include "fovea/data/order/permutation.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data_tools/damaged_samples.h"
#include "tests/data/archive_support.h"
#include "tests/support/python.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using testing::FakeDataset;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;
using testing::stored_bytes;
using testing::TempDir;

constexpr uint64_t kSmallShard = 20'000;

class PackTest : public ::testing::Test {
 protected:
  PackTest() {
    const std::vector<std::string> names = {"jpeg_420", "jpeg_gray", "png_rgb", "png_gray",
                                            "jpeg_exif_6"};
    for (int i = 0; i < 40; ++i) {
      const auto& name = names[static_cast<size_t>(i) % names.size()];
      dir_.write(fmt::format("in/{}/{:03}.{}", i % 3 == 0 ? "ant" : "bee", i, name.substr(0, 4)) +
                     (name[0] == 'p' ? ".png" : ".jpg"),
                 golden("file." + name).bytes);
    }
    source_ = build_folder_dataset({.path = dir_.path() + "/in"});
  }

  PackOptions options(const std::string& folder, const std::string& to = "packed") const {
    PackOptions options;
    options.out = dir_.path() + "/" + folder;
    options.to = to;
    options.shard_bytes = kSmallShard;
    options.threads = 2;
    return options;
  }

  std::shared_ptr<const Dataset> open(const PackOptions& options) const {
    return build_dataset(find_datasets(options.out).front().config);
  }

  // All files of a folder and their bytes.
  static std::map<std::string, std::string> contents(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      files[entry.path().filename().string()] = read_file(entry.path().string(), 1 << 30);
    }
    return files;
  }

  void expect_equal_samples(const Dataset& a, const Dataset& b) const {
    ASSERT_EQ(a.size(), b.size());
    Sample x, y;
    for (int64_t i = 0; i < a.size(); ++i) {
      read_decoded(a, i, x);
      read_decoded(b, i, y);
      EXPECT_EQ(x.label, y.label) << i;
      ASSERT_EQ(x.image().pixels, y.image().pixels) << i;
      EXPECT_EQ(x.image().width, y.image().width);
      EXPECT_EQ(x.image().channels, y.image().channels);
    }
  }

  TempDir dir_;
  std::shared_ptr<const Dataset> source_;
};

TEST_F(PackTest, FilesAreKeptByteForByte) {
  for (const std::string to : {"packed", "wds"}) {
    const auto report = pack_dataset(*source_, options(to, to));
    EXPECT_EQ(report.samples, 40);
    EXPECT_EQ(report.resumed, 0);
    EXPECT_GT(report.shards, 2);
    const auto packed = open(options(to));
    expect_equal_samples(*source_, *packed);
    EXPECT_EQ(packed->num_classes(), 2);
    for (int64_t i = 0; i < 40; ++i) {
      ASSERT_EQ(stored_bytes(*packed, i), stored_bytes(*source_, i));
    }
  }
  EXPECT_EQ(open(options("packed"))->class_names(), source_->class_names());
}

// What is mapped stays where it is, and gives the same batches.
TEST_F(PackTest, RawPixelsAreReadInPlace) {
  auto raw = options("raw");
  raw.raw = true;
  pack_dataset(*source_, raw);
  const auto packed = open(raw);
  Sample whole, sample;
  for (int64_t i = 0; i < packed->size(); ++i) {
    read_decoded(*packed, i, whole);
    packed->read(i, sample);
    EXPECT_EQ(testing::pixels_of(ImageView(sample.as<StoredImage>())), whole.image().pixels) << i;
    EXPECT_EQ(sample.as<StoredImage>().channels, whole.image().channels);
    EXPECT_EQ(sample.label, whole.label);
  }
  source_->read(0, sample);
  EXPECT_FALSE(sample.as<EncodedImage>().bytes.empty());
  const auto pipeline = std::make_shared<TransformPipeline>(
      std::vector<TransformConfig>{{ResizeConfig{.size = {16, 16}}}, {HorizontalFlipConfig{}}}, 3);
  Loader from_files(source_, pipeline, {.global_batch_size = 40});
  Loader from_pixels(packed, pipeline, {.global_batch_size = 40});
  EXPECT_EQ(from_files.next().images, from_pixels.next().images);
}

TEST_F(PackTest, RawPixelsAndSmallSides) {
  auto raw = options("raw");
  raw.raw = true;
  pack_dataset(*source_, raw);
  expect_equal_samples(*source_, *open(raw));
  auto small = options("small");
  small.max_side = 20;
  pack_dataset(*source_, small);
  const auto shrunk = open(small);
  Sample whole, sample;
  for (int64_t i = 0; i < 5; ++i) {
    read_decoded(*source_, i, whole);
    read_decoded(*shrunk, i, sample);
    EXPECT_EQ(std::max(sample.image().height, sample.image().width), 20);
    EXPECT_EQ(sample.image().channels, whole.image().channels);
    EXPECT_NEAR(static_cast<double>(sample.image().width) / sample.image().height,
                static_cast<double>(whole.image().width) / whole.image().height, 0.1);
  }
  EXPECT_TRUE(is_jpeg(stored_bytes(*shrunk, 2)));
}

TEST_F(PackTest, PixelsWithoutAFileLoseNothing) {
  const FakeDataset fake(50, 6);
  for (const std::string to : {"packed", "wds"}) {
    pack_dataset(fake, options(to, to));
    expect_equal_samples(fake, *open(options(to)));
  }
}

TEST_F(PackTest, StatisticsAreThoseOfThePixels) {
  const FakeDataset fake(7, 5);
  pack_dataset(fake, options("out"));
  const auto manifest =
      parse_packed_manifest(read_file(options("out").out + "/manifest.json", 1 << 20), "manifest");
  double sum = 0, squares = 0;
  Sample sample;
  for (int64_t i = 0; i < 7; ++i) {
    read_decoded(fake, i, sample);
    for (const uint8_t value : sample.image().pixels) {
      sum += value / 255.0;
      squares += value / 255.0 * value / 255.0;
    }
  }
  const double mean = sum / (7 * 25);
  ASSERT_EQ(manifest.mean.size(), 1u);
  EXPECT_NEAR(manifest.mean[0], mean, 1e-12);
  EXPECT_NEAR(manifest.std[0], std::sqrt(squares / (7 * 25) - mean * mean), 1e-12);
  EXPECT_EQ(manifest.class_counts, (std::vector<int64_t>{1, 1, 1, 1, 1, 1, 1, 0, 0, 0}));
  // Colour: each channel on its own; gray images count in all three.
  PixelSums sums;
  sums.add(Image{1, 2, 3, {0, 10, 20, 255, 30, 40}});
  sums.add(Image{1, 1, 1, {100}});
  EXPECT_NEAR(sums.mean()[1], (10 + 30 + 100) / 3.0 / 255, 1e-12);
  EXPECT_NEAR(sums.std()[0], std::sqrt((255.0 * 255 + 1e4) / 3 - 355.0 * 355 / 9) / 255, 1e-12);
}

TEST_F(PackTest, BytesDependOnDataAndOptionsOnly) {
  for (const std::string to : {"packed", "wds"}) {
    auto one = options("one_" + to, to), four = options("four_" + to, to);
    one.threads = 1;
    four.threads = 4;
    one.max_side = four.max_side = 25;
    pack_dataset(*source_, one);
    pack_dataset(*source_, four);
    EXPECT_EQ(contents(one.out), contents(four.out));
  }
}

TEST_F(PackTest, ShufflingIsAPermutation) {
  auto shuffled = options("out");
  shuffled.shuffle_seed = 3;
  pack_dataset(*source_, shuffled);
  const auto packed = open(shuffled);
  const Permutation order(40, 3, 0);
  Sample x, y;
  std::set<int64_t> seen;
  for (int64_t i = 0; i < 40; ++i) {
    seen.insert(order(i));
    read_decoded(*source_, order(i), x);
    read_decoded(*packed, i, y);
    EXPECT_EQ(x.image().pixels, y.image().pixels);
    EXPECT_THAT(packed->describe(i), HasSubstr(source_->describe(order(i))));
  }
  EXPECT_EQ(seen.size(), 40u);
}

// The child is killed in the middle of its work, at every point that its progress is told.
TEST_F(PackTest, GoesOnAfterAKill) {
  const FakeDataset many(400, 40);
  for (const std::string to : {"packed", "wds"}) {
    auto whole = options("whole_" + to, to);
    whole.shard_bytes = 10'000;
    pack_dataset(many, whole);
    auto broken = options("broken_" + to, to);
    broken.shard_bytes = 10'000;
    int64_t kills = 0;
    for (int64_t until = 100; until < 400; until += 100) {
      const pid_t child = fork();
      if (child == 0) {
        broken.progress = [&](int64_t done, int64_t) {
          if (done >= until) raise(SIGKILL);
        };
        pack_dataset(many, broken);
        _exit(0);
      }
      int status = 0;
      waitpid(child, &status, 0);
      kills += WIFSIGNALED(status);
      EXPECT_FALSE(fs::exists(broken.out + "/manifest.json"));
      if (to == "packed") {
        EXPECT_THAT(message_of([&] { build_packed_dataset({.path = broken.out}); }),
                    HasSubstr("not packed to its end"));
      }
    }
    EXPECT_EQ(kills, 3);
    broken.progress = nullptr;
    const auto report = pack_dataset(many, broken);
    EXPECT_GT(report.resumed, 100);
    EXPECT_LT(report.resumed, 400);
    EXPECT_EQ(contents(broken.out), contents(whole.out));
    EXPECT_EQ(pack_dataset(many, broken).resumed, 400);
  }
}

TEST_F(PackTest, OtherOptionsOrOtherThingsInTheFolderAreRefused) {
  const auto first = options("out");
  pack_dataset(*source_, first);
  const auto error = [](const Dataset& dataset, const PackOptions& options) {
    return message_of<ConfigError>([&] { pack_dataset(dataset, options); });
  };
  auto other = first;
  other.max_side = 10;
  EXPECT_THAT(error(*source_, other), HasSubstr("begun with another data set or other options"));
  EXPECT_THAT(error(FakeDataset(40, 5), first), HasSubstr("begun with another data set"));
  dir_.write("full/x.txt", std::string("x"));
  EXPECT_THAT(error(*source_, options("full")), HasSubstr("the folder is not empty"));
  auto raw = options("raw", "wds");
  raw.raw = true;
  EXPECT_THAT(error(*source_, raw), HasSubstr("raw pixels cannot stand in a WebDataset"));
  EXPECT_THAT(error(FakeDataset(0, 1), options("none")), HasSubstr("empty"));
  EXPECT_THAT(message_of<DataError>([&] { pack_dataset(FakeDataset(9, 4, {5}), options("bad")); }),
              HasSubstr("damaged"));
}

TEST_F(PackTest, CheckNamesDamagedSamples) {
  const auto packed = options("out");
  pack_dataset(*source_, packed);
  EXPECT_TRUE(check_dataset(*open(packed)).damaged.empty());
  // One flipped bit in the middle of the second sample of the first shard.
  const auto path = packed.out + "/" + packed_shard_name(0);
  auto bytes = read_file(path, 1 << 30);
  const size_t first = golden("file.jpeg_420").bytes.size();
  bytes[kPackedHeaderBytes + first + 200] ^= 1;
  dir_.write("out/" + packed_shard_name(0), testing::to_bytes(bytes));
  const auto report = check_dataset(*open(packed), 2);
  EXPECT_EQ(report.samples, 40);
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_THAT(report.damaged[0].reason,
              AllOf(HasSubstr("shard_000000.fvp[" + std::to_string(report.damaged[0].index)),
                    HasSubstr("checksum is wrong")));
  const auto unverified = build_packed_dataset({.path = packed.out, .verify = false});
  EXPECT_LE(check_dataset(*unverified).damaged.size(), 1u);
}

TEST_F(PackTest, DamagedShardsAreRefused) {
  const auto packed = options("out");
  pack_dataset(*source_, packed);
  const auto name = packed_shard_name(1);
  const auto path = packed.out + "/" + name;
  const auto good = read_file(path, 1 << 30);
  const auto error_with = [&](const std::string& bytes) {
    dir_.write("out/" + name, testing::to_bytes(bytes));
    return message_of<DataError>([&] { open(packed); });
  };
  EXPECT_THAT(error_with(good.substr(0, good.size() - 1)),
              AllOf(HasSubstr(name), HasSubstr("but the manifest has")));
  for (const size_t back : {1, 30, 60, 100, 200}) {
    auto bad = good;
    bad[bad.size() - back] ^= 0x10;
    EXPECT_THAT(error_with(bad), HasSubstr(name)) << back;
  }
  auto bad = good;
  bad[0] = 'X';
  EXPECT_THAT(error_with(bad), HasSubstr("first bytes are others"));
  fs::remove(path);
  EXPECT_THAT(message_of<DataError>([&] { open(packed); }), HasSubstr(name));
  dir_.write("out/" + name, testing::to_bytes(good));
  dir_.write("out/manifest.json", std::string("{}"));
  EXPECT_THAT(message_of<DataError>([&] { open(packed); }), HasSubstr("not the manifest"));
}

TEST_F(PackTest, AShardThatShrinksWhileItIsReadIsAnError) {
  auto raw = options("raw");
  raw.raw = true;
  raw.shard_bytes = 1 << 20;
  const FakeDataset fake(20, 100);  // samples of several pages
  pack_dataset(fake, raw);
  const auto packed = open(raw);
  Sample sample;
  read_decoded(*packed, 19, sample);
  fs::resize_file(raw.out + "/" + packed_shard_name(0), 4096);
  EXPECT_THAT(message_of([&] { read_decoded(*packed, 19, sample); }),
              HasSubstr("must not change during a run"));
}

TEST_F(PackTest, ManifestsThatCannotBe) {
  const auto error = [](const std::string& text) {
    return message_of<DataError>([&] { parse_packed_manifest(text, "m.json"); });
  };
  EXPECT_THAT(error("nonsense"), HasSubstr("m.json: not the manifest"));
  EXPECT_THAT(error(R"({"format": "fovea packed", "version": 2})"), HasSubstr("version 2"));
  EXPECT_THAT(error(R"({"format": "fovea packed", "version": 1})"), HasSubstr("num_classes"));
  const auto with_shard = [](const std::string& file, const std::string& names) {
    return R"({"format": "fovea packed", "version": 1, "num_classes": 1, "class_names": )" + names +
           R"(, "class_counts": [], "mean": [], "std": [], "shards": [{"file": ")" + file +
           R"(", "samples": 1, "bytes": 1}]})";
  };
  EXPECT_EQ(parse_packed_manifest(with_shard("a.fvp", "[]"), "m.json").num_samples(), 1);
  EXPECT_THAT(error(with_shard("../a.fvp", "[]")), HasSubstr("a shard that cannot be"));
  EXPECT_THAT(error(with_shard("a.fvp", "[\"x\", \"y\"]")), HasSubstr("1 classes, but 2 names"));
  EXPECT_THAT(error(with_shard("a.fvp", "[3]")), HasSubstr("m.json"));
}

// The tars that are written here, read by the webdataset package itself.
TEST_F(PackTest, WebdatasetReadsTheTars) {
  const auto python = support::python();
  if (python.empty() || support::run_command(python + " -c 'import webdataset' 2>&1").status != 0) {
    GTEST_SKIP() << "set FOVEA_PYTHON to a Python with webdataset (pip install webdataset)";
  }
  pack_dataset(*source_, options("out", "wds"));
  const auto script = dir_.write("read.py", std::string(R"(import glob, hashlib, sys, webdataset
tars = sorted(glob.glob(sys.argv[1] + "/*.tar"))
for sample in webdataset.WebDataset(tars, shardshuffle=False):
    image = sample.get("jpg") or sample.get("png")
    print(sample["__key__"], int(sample["cls"]), len(image), sum(image))
)"));
  const auto result = support::run_command(python + " " + script + " " + options("out").out);
  ASSERT_EQ(result.status, 0);
  std::string expected;
  Sample sample;
  for (int64_t i = 0; i < source_->size(); ++i) {
    source_->read(i, sample);
    const auto& file = sample.as<EncodedImage>().bytes;
    int64_t sum = 0;
    for (const uint8_t byte : file) sum += byte;
    expected += fmt::format("{:08} {} {} {}\n", i, sample.label, file.size(), sum);
  }
  EXPECT_EQ(result.output, expected);
}

}  // namespace
}  // namespace fovea::data
