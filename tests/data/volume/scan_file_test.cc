#include "fovea/data/volume/scan_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::golden_arrays;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

const char* const kFile = "data_scans";

// tests/golden/data_scans.safetensors, whose files stand under their own names.
class ScanFileTest : public ::testing::Test {
 protected:
  // All files of a scan; their names.
  std::set<std::string> write(const std::string& scan) {
    std::set<std::string> names;
    const std::string prefix = "file." + scan + "/";
    for (const auto& [key, array] : golden_arrays(kFile)) {
      if (!key.starts_with(prefix)) continue;
      names.insert(key.substr(prefix.size()));
      dir_.write(key.substr(prefix.size()), array.bytes);
    }
    return names;
  }

  static Volume volume_of(VolumeFile& file) {
    Volume volume;
    convert_volume(file.read(), volume);
    return volume;
  }

  template <class T>
  static std::vector<T> golden_of(const std::string& key) {
    return testing::golden(key, kFile).values<T>();
  }
  static bool has(const std::string& key) { return golden_arrays(kFile).contains(key); }

  // SimpleITK writes NIfTI's affine in float32.
  static void expect_affine(const Affine& affine, const std::string& key) {
    const auto expected = golden_of<double>(key);
    for (size_t i = 0; i < 12; ++i)
      EXPECT_NEAR(affine[i / 4][i % 4], expected[i], 1e-5) << key << " " << i;
  }

  void expect_same(const std::string& scan, const std::string& name) {
    SCOPED_TRACE(name);
    const auto stored = open_scan(dir_.file(name));
    const Volume volume = volume_of(*stored);
    EXPECT_EQ(volume.values, golden_of<float>("values." + scan));
    // ITK does not name the space of four axes.
    const bool has_place = has("affine." + scan) && name != "frames.nrrd";
    if (has_place) expect_affine(stored->header().affine, "affine." + scan);
    for (size_t i = 0; has("spacing." + scan) && i < 3; ++i)
      EXPECT_NEAR(volume.spacing[i], golden_of<double>("spacing." + scan)[i], 1e-5);
    const auto canonical = open_scan(dir_.file(name), {.canonical = true});
    if (name == "frames.nrrd") {
      EXPECT_EQ(canonical->header().strides, stored->header().strides);
    }
    if (!has_place || !has("canonical." + scan)) return;
    EXPECT_EQ(canonical->header().orientation, "RAS");
    EXPECT_EQ(volume_of(*canonical).values, golden_of<float>("canonical." + scan));
    expect_affine(canonical->header().affine, "canonical_affine." + scan);
  }

  // The header of `name` with `from` replaced; the message on opening or reading it.
  std::string error_with(const std::string& name, const std::string& from, const std::string& to) {
    const auto bytes = bytes_of_file(name);
    std::string text(bytes.begin(), bytes.end());
    text = std::regex_replace(text, std::regex(from), to, std::regex_constants::format_first_only);
    dir_.write("bad_" + name, text);
    return message_of([&] { open_scan(dir_.file("bad_" + name))->read(); });
  }

  static std::vector<uint8_t> bytes_of_file(const std::string& name) {
    for (const auto& [key, array] : golden_arrays(kFile)) {
      if (key.ends_with("/" + name)) return array.bytes;
    }
    return {};
  }

  const TempDir dir_;
};

// Every type, both byte orders, raw and deflated, in one file and in two, vectors and frames; as
// the same scan in a NIfTI file is read.
TEST_F(ScanFileTest, ReadsWhatSimpleItkAndPynrrdWrite) {
  int count = 0;
  for (const auto& [key, array] : golden_arrays(kFile)) {
    if (!key.starts_with("values.")) continue;
    const std::string scan = key.substr(7);
    for (const auto& name : write(scan)) {
      if (!is_scan_name(name)) continue;
      expect_same(scan, name);
      ++count;
    }
  }
  EXPECT_EQ(count, 60);
}

TEST_F(ScanFileTest, ChannelsAreSaidByTheFile) {
  for (const char* scan : {"vector", "frames", "list_second"}) {
    for (const auto& name : write(scan)) {
      const auto file = open_scan(dir_.file(name));
      const int64_t channels = file->header().channels;
      EXPECT_EQ(channels, std::string(scan) == "vector" ? 3 : 2) << name;
      const auto all = volume_of(*file);
      const auto last = volume_of(*open_scan(dir_.file(name), {.frame = channels - 1}));
      EXPECT_EQ(last.channels, 1);
      EXPECT_TRUE(
          std::equal(last.values.begin(), last.values.end(), all.values.end() - all.size.voxels()));
    }
  }
  write("flat");
  EXPECT_EQ(open_scan(dir_.file("flat.nrrd"))->header().size, (VolumeSize{1, 5, 4}));
  EXPECT_THAT(open_scan(dir_.file("flat.mha"))->header().spacing, ElementsAre(1, 0.5, 2));
}

TEST_F(ScanFileTest, RegionsAreTheSameNumbers) {
  for (const char* scan : {"vector", "space_lef", "detached"}) {
    for (const auto& name : write(scan)) {
      if (!is_scan_name(name)) continue;
      for (const bool canonical : {false, true}) {
        const auto file = open_scan(dir_.file(name), {.canonical = canonical});
        const bool is_raw = name.find("packed") == std::string::npos;
        EXPECT_EQ(file->has_regions(), is_raw) << name;
        const Volume whole = volume_of(*file);
        const auto& size = whole.size;
        const VolumeRegion region{
            {size.depth - 2, 1, size.width - 1}, {2, size.height - 1, 1}, size};
        Volume part;
        convert_volume(file->read_region(region), part);
        size_t at = 0;
        for (int64_t c = 0; c < whole.channels; ++c) {
          for (int64_t d = size.depth - 2; d < size.depth; ++d) {
            for (int64_t h = 1; h < size.height; ++h) {
              const int64_t row = (c * size.depth + d) * size.height + h;
              EXPECT_EQ(part.values[at++], whole.values[(row + 1) * size.width - 1]) << name;
            }
          }
        }
      }
    }
  }
}

TEST_F(ScanFileTest, FormatsOfDataSets) {
  write("space_rig");
  std::filesystem::rename(dir_.file("space_rig.nrrd"), dir_.file("image.nrrd"));
  write("detached");
  NrrdConfig nrrd;
  nrrd.path = dir_.path();
  EXPECT_EQ(build_dataset({nrrd})->size(), 1);
  MetaImageConfig meta;
  meta.path = dir_.path();
  meta.masks = "plain_nhdr.nhdr";
  meta.images = {"plain_mhd.mhd"};
  meta.num_classes = 400;
  meta.label_offset = -200;
  const auto dataset = build_dataset({meta});
  Sample sample;
  dataset->read(0, sample);
  EXPECT_EQ(sample.volume().values, golden_of<float>("values.detached"));
  EXPECT_EQ(sample.mask.classes.size(), sample.volume().values.size());
  write("frames");
  meta.masks.clear();
  meta.images = {"frames.mha"};
  meta.frames = "samples";
  EXPECT_EQ(build_dataset({meta})->size(), 2);
}

TEST_F(ScanFileTest, DamagedNrrdIsNamed) {
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_with("sitk_int16.nrrd", from, to);
  };
  EXPECT_THAT(error("NRRD000\\d", "NRRD0009"), HasSubstr("expected NRRD0001 to NRRD0005"));
  EXPECT_THAT(error("type: short", "type: block"), HasSubstr("type block; expected integers"));
  EXPECT_THAT(error("type: short", "typ: short"), HasSubstr("no field \"type\""));
  EXPECT_THAT(error("encoding: raw", "encoding: bzip2"), HasSubstr("encoding bzip2"));
  EXPECT_THAT(error("encoding: raw", "encoding: gzip"), HasSubstr("deflate stream is damaged"));
  EXPECT_THAT(error("endian: little", "endian: middle"), HasSubstr("expected little or big"));
  EXPECT_THAT(error("sizes: 5 4 3", "sizes: 5 4"), HasSubstr("sizes is \"5 4\"; expected 3"));
  EXPECT_THAT(error("sizes: 5 4 3", "sizes: 5 4 0"), HasSubstr("sizes of at least 1"));
  EXPECT_THAT(error("sizes: 5 4 3", "sizes: 5 4 9999999999999999"), HasSubstr("with a product"));
  EXPECT_THAT(error("sizes: 5 4 3", "sizes: 5 4 4"), HasSubstr("announces 160 bytes of data"));
  EXPECT_THAT(error("space: [a-z-]+", "space: upside-down"), HasSubstr("space \"upside-down\""));
  EXPECT_THAT(error("space directions: [^\n]*", "space directions: (1,0,0) (0,1,0)"),
              HasSubstr("expected 3 vectors of 3 finite numbers"));
  EXPECT_THAT(error("space directions: [^\n]*", "space directions: (1,0,nan) (0,1,0) (0,0,1)"),
              HasSubstr("expected 3 vectors"));
  EXPECT_THAT(error("kinds: [^\n]*", "kinds: vector list domain"), HasSubstr("2 of channels"));
  EXPECT_THAT(error("encoding: raw", "encoding: raw\nencoding: raw"), HasSubstr("given twice"));
  EXPECT_THAT(error("encoding: raw", "encoding: raw\nbyte skip: 4"), HasSubstr("at offset"));
  EXPECT_THAT(error("encoding: raw", "encoding: raw\nline skip: 99"), HasSubstr("line skip 99"));
  EXPECT_THAT(error("encoding: raw", "encoding: raw\ndata file: ../a.raw"),
              HasSubstr("expected a file in the same folder"));
  EXPECT_THAT(error("encoding: raw", "encoding: raw\ndata file: a%03d.raw 1 3 1"),
              HasSubstr("expected the name of one file"));
  EXPECT_THAT(error("encoding: raw", "encoding: raw\ndata file: none.raw"), HasSubstr("none.raw"));
  EXPECT_THAT(message_of([&] {
                open_scan(dir_.write("long.nrrd", "NRRD0004\n#" + std::string(1 << 21, 'x')));
              }),
              HasSubstr("a header of more than"));
}

TEST_F(ScanFileTest, DamagedMetaImageIsNamed) {
  const auto error = [&](const std::string& from, const std::string& to) {
    return error_with("sitk_int16.mha", from, to);
  };
  EXPECT_THAT(error("ObjectType = Image", "ObjectType = Mesh"), HasSubstr("expected Image"));
  EXPECT_THAT(error("NDims = 3", "NDims = 5"), HasSubstr("NDims 5; expected 1 to 4"));
  EXPECT_THAT(error("NDims = 3", "NDims: 3"), HasSubstr("is not \"Key = Value\""));
  EXPECT_THAT(error("BinaryData = True", "BinaryData = False"), HasSubstr("values as text"));
  EXPECT_THAT(error("BinaryData = True", "BinaryData = Yes"), HasSubstr("expected True or False"));
  EXPECT_THAT(error("ElementType = MET_SHORT", "ElementType = MET_OTHER"),
              HasSubstr("ElementType MET_OTHER"));
  EXPECT_THAT(error("DimSize = 5 4 3", "DimSize = 5 4"), HasSubstr("expected 3 numbers"));
  EXPECT_THAT(error("DimSize = 5 4 3", "DimSize = 5 4 -3"), HasSubstr("sizes of at least 1"));
  EXPECT_THAT(error("DimSize = 5 4 3", "DimSize = 5 4 4"), HasSubstr("announces 160 bytes"));
  EXPECT_THAT(error("Offset = [^\n]*", "Offset = 1 2"), HasSubstr("Offset is \"1 2\""));
  EXPECT_THAT(error("TransformMatrix = [^\n]*", "TransformMatrix = 1 0 0"),
              HasSubstr("expected 9 numbers"));
  EXPECT_THAT(error("ElementDataFile[^]*", ""), HasSubstr("no ElementDataFile"));
  EXPECT_THAT(error("ElementDataFile = LOCAL", "ElementDataFile = LIST"),
              HasSubstr("expected the name of one file"));
  EXPECT_THAT(error("ElementDataFile = LOCAL", "ElementDataFile = /etc/passwd"),
              HasSubstr("expected a file in the same folder"));
  EXPECT_THAT(error("NDims = 3", "NDims = 3\nElementToIntensityFunctionSlope = 2"),
              HasSubstr("expected 1 and 0"));
  EXPECT_THAT(error("CompressedData = False", "CompressedData = True"),
              HasSubstr("deflate stream is damaged"));
  EXPECT_THAT(
      error_with("sitk_int16_packed.mha", "CompressedDataSize = \\d+", "CompressedDataSize = 3"),
      AllOf(HasSubstr("CompressedDataSize 3"), HasSubstr("truncated")));
}

// A volume of zeros that unpacks to more than such a file may.
TEST_F(ScanFileTest, WhatUnpacksToTooMuchIsRefused) {
  const auto packed = testing::gzip(std::vector<uint8_t>(1 << 20));
  std::string text = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 1024 32 32\nencoding: gzip\n\n";
  text.append(packed.begin(), packed.end());
  dir_.write("zeros.nrrd", text);
  EXPECT_EQ(open_scan(dir_.file("zeros.nrrd"))->read().bytes.size(), size_t{1} << 20);
  EXPECT_THAT(
      message_of([&] { open_scan(dir_.file("zeros.nrrd"), {.max_unpacked_bytes = 1 << 19}); }),
      HasSubstr("raise max_unpacked_bytes"));
}

}  // namespace
}  // namespace fovea::data
