// Bad input in sets of volume files, and disks that are slow rather than bad.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "tests/data/bad_input_support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using testing::becomes_a_pipe;
using testing::cut;
using testing::disk_fails;
using testing::DiskFault;
using testing::edit;
using testing::expect_policies;
using testing::expect_refused;
using testing::FailingDisk;
using testing::file_bytes;
using testing::folder_set;
using testing::golden_file;
using testing::gzip;
using testing::Harm;
using testing::kSetSize;
using testing::replaced;
using testing::shrinks;
using testing::small_mask;
using testing::small_volume;
using testing::SmallSet;
using testing::TempDir;
using testing::to_text;
using testing::truncated;
using testing::vanishes;
using testing::with_number;

using VolumeBytes = std::vector<uint8_t>;

const Affine kPlain = affine_of_spacing({1, 1, 1});
constexpr size_t kNiftiData = 352;  // behind the header

Harm edited(const std::string& fault, const std::string& name, const std::string& reason,
            std::function<void(VolumeBytes&)> change) {
  return {.fault = fault, .act = edit(name, change), .name = name, .reason = reason};
}

SmallSet nifti_set(bool is_packed) {
  const std::string ending = is_packed ? "nii.gz" : "nii";
  return {is_packed ? "nifti, compressed" : "nifti",
          [ending](const TempDir& dir) {
            for (int64_t i = 0; i < kSetSize; ++i) {
              write_nifti(dir.file(fmt::format("x/{}.{}", i, ending)), small_volume(i), kPlain);
              write_nifti(dir.file(fmt::format("y/{}.{}", i, ending)), small_mask(i), kPlain);
            }
          },
          [ending](const TempDir& dir) {
            NiftiConfig config;
            config.path = dir.path();
            config.images = {"x/*." + ending};
            config.masks = "y/*." + ending;
            config.num_classes = 3;
            return build_dataset({config});
          },
          /*has_volumes=*/true};
}

// A volume as an uncompressed file.
VolumeBytes file_bytes_of_volume() {
  const TempDir dir;
  write_nifti(dir.file("a.nii"), small_volume(2), kPlain);
  return file_bytes(dir.file("a.nii"));
}

// A header that announces sides of 1,000 with nothing behind it.
VolumeBytes thousand_cubed(VolumeBytes bytes) {
  for (size_t axis = 0; axis < 3; ++axis)
    bytes = with_number<int16_t>(std::move(bytes), 42 + 2 * axis, 1000);
  return bytes;
}

TEST(BadVolumesTest, Nifti) {
  const auto set = nifti_set(false);
  const std::string name = "x/2.nii";
  for (const Harm& harm :
       {truncated(name), replaced(name, "wrong magic", std::string(400, 'x'), "not a NIfTI file"),
        replaced(name, "empty", "", "too few for a NIfTI header"), vanishes(name),
        becomes_a_pipe(name), disk_fails(name), shrinks(name, 400, "truncated"),
        edited("sizes that overflow", name, "32767 x 32767 x 32767",
               [](auto& bytes) {
                 for (size_t axis = 0; axis < 3; ++axis)
                   bytes = with_number<int16_t>(bytes, 42 + 2 * axis, 32767);
               }),
        edited("more voxels than bytes", name, "truncated",
               [](auto& bytes) { bytes = thousand_cubed(bytes); }),
        edited("NaN", name, "2 of 120 values are NaN",
               [](auto& bytes) {
                 bytes = with_number<float>(bytes, kNiftiData, std::nanf(""));
                 bytes = with_number<float>(bytes, kNiftiData + 40, INFINITY);
               }),
        edited("bytes behind the end", name, "more bytes than its header describes",
               [](auto& bytes) { bytes.resize(bytes.size() + 10'000); })}) {
    expect_policies(set, harm);
  }
  const std::string mask = "y/2.nii";
  for (const Harm& harm :
       {truncated(mask), vanishes(mask), disk_fails(mask),
        edited("mask of another size", mask, "4 x 5 x 7 voxels, but",
               [](auto& bytes) {
                 bytes = with_number<int16_t>(bytes, 46, 7);
                 bytes.resize(kNiftiData + 2 * 140);
               }),
        edited("a class that there is not", mask, "the number 9 at",
               [](auto& bytes) { bytes = with_number<int16_t>(bytes, kNiftiData + 20, 9); })}) {
    expect_policies(set, harm);
  }
}

TEST(BadVolumesTest, CompressedNifti) {
  const auto set = nifti_set(true);
  const std::string name = "x/2.nii.gz";
  for (const Harm& harm :
       {truncated(name), vanishes(name), disk_fails(name), becomes_a_pipe(name),
        shrinks(name, 60, "truncated"),
        edited("a bit turned", name, "", [](auto& bytes) { bytes[bytes.size() - 6] ^= 1; }),
        // A few kilobytes that become 8 MiB behind a header of 120 voxels.
        edited("bomb", name, "more bytes than its header describes",
               [](auto& bytes) {
                 VolumeBytes more(8 << 20);
                 const auto plain = file_bytes_of_volume();
                 std::copy(plain.begin(), plain.end(), more.begin());
                 bytes = gzip(more);
               }),
        edited("header of a bomb", name, "the file can hold",
               [](auto& bytes) { bytes = gzip(thousand_cubed(file_bytes_of_volume())); })}) {
    expect_policies(set, harm);
  }
}

TEST(BadVolumesTest, BasicCt) {
  const SmallSet set = {
      "basic_ct",
      [](const TempDir& dir) {
        for (int64_t i = 0; i < kSetSize; ++i) {
          write_nifti(dir.file(fmt::format("imagesTr/image_{}.nii", i)), small_volume(i), kPlain);
          write_nifti(dir.file(fmt::format("labelsTr/label_{}.nii", i)), small_mask(i), kPlain,
                      {.label_offset = 1});
        }
      },
      [](const TempDir& dir) { return build_dataset({BasicCtConfig{.path = dir.path()}}); },
      /*has_volumes=*/true};
  const std::string image = "imagesTr/image_2.nii", label = "labelsTr/label_2.nii";
  for (const Harm& harm :
       {truncated(image), truncated(label), vanishes(image), vanishes(label), disk_fails(image),
        disk_fails(label), edited("NaN", image, "1 of 120 values are NaN", [](auto& bytes) {
          bytes = with_number<float>(bytes, kNiftiData, std::nanf(""));
        })}) {
    expect_policies(set, harm);
  }
}

SmallSet npy_set() {
  return {"npy",
          [](const TempDir& dir) {
            for (int64_t i = 0; i < kSetSize; ++i) {
              const auto volume = small_volume(i);
              write_npy(dir.file(fmt::format("{}.npy", i)), "<f4", {4, 5, 6},
                        std::as_bytes(std::span(volume.values)));
            }
          },
          [](const TempDir& dir) {
            NpyConfig config;
            config.path = dir.path();
            return build_dataset({config});
          },
          /*has_volumes=*/true};
}

// The header's text with as many characters of another.
std::function<void(VolumeBytes&)> rewrite(const std::string& from, const std::string& to) {
  return [=](VolumeBytes& bytes) {
    const size_t at = to_text(bytes).find(from);
    ASSERT_NE(at, std::string::npos);
    ASSERT_EQ(from.size(), to.size());
    std::copy(to.begin(), to.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
  };
}

TEST(BadVolumesTest, Npy) {
  const std::string name = "2.npy";
  for (const Harm& harm :
       {truncated(name, "bytes of data, but its header describes"),
        replaced(name, "wrong magic", "hello, this is no array", "not a .npy file"), vanishes(name),
        becomes_a_pipe(name), disk_fails(name),
        shrinks(name, 200, "bytes of data, but its header describes"),
        edited("pickled", name, "2.npy", rewrite("'<f4'", "'|O' ")),
        edited("sizes that overflow", name, "2.npy",
               [](auto& bytes) {
                 const std::string from = "(4, 5, 6)", to = "(4000000000, 4000000000, 4000000000)";
                 std::string text = to_text(bytes);
                 const size_t at = text.find(from);
                 text.replace(at, from.size(), to);
                 text.erase(text.find("  ", at), to.size() - from.size());
                 bytes = testing::to_bytes(text);
               }),
        edited("NaN", name, "1 of 120 values are NaN", [](auto& bytes) {
          bytes = with_number<float>(bytes, bytes.size() - 4, std::nanf(""));
        })}) {
    expect_policies(npy_set(), harm);
  }
}

TEST(BadVolumesTest, Raw) {
  const SmallSet set = {"raw",
                        [](const TempDir& dir) {
                          for (int64_t i = 0; i < kSetSize; ++i) {
                            std::vector<float> values(64 * 40 * 2);
                            for (size_t v = 0; v < values.size(); ++v)
                              values[v] = static_cast<float>(v % 97) + static_cast<float>(i);
                            VolumeBytes bytes(4 * values.size());
                            std::memcpy(bytes.data(), values.data(), bytes.size());
                            dir.write(fmt::format("{}.raw", i), bytes);
                          }
                        },
                        [](const TempDir& dir) {
                          RawConfig config;
                          config.path = dir.path();
                          config.shape = {2, 64, 40};
                          return build_dataset({config});
                        },
                        /*has_volumes=*/true};
  const std::string name = "2.raw";
  for (const Harm& harm :
       {disk_fails(name), shrinks(name, 5000, "it became shorter while it was read"),
        shrinks(name, 0, "it became shorter while it was read"),
        shrinks(name, 20'000, "it became shorter while it was read"),
        edited("NaN", name, "1 of 5120 values are NaN",
               [](auto& bytes) { bytes = with_number<float>(bytes, 400, std::nanf("")); })}) {
    expect_policies(set, harm);
  }
  expect_refused(set, truncated(name, "10240 bytes; expected 20480"));
}

TEST(BadVolumesTest, Dicom) {
  const SmallSet set = {"dicom",
                        [](const TempDir& dir) {
                          for (int64_t i = 0; i < kSetSize; ++i) {
                            for (int slice = 0; slice < 4; ++slice) {
                              dir.write(fmt::format("s{}/{}.dcm", i, slice),
                                        golden_file(fmt::format("dicom.explicit.{}", slice)));
                            }
                            dir.write(fmt::format("s{}/README", i), std::string(200, 'x'));
                          }
                        },
                        [](const TempDir& dir) {
                          DicomConfig config;
                          config.path = dir.path();
                          return build_dataset({config});
                        },
                        /*has_volumes=*/true};
  const std::string slice = "s2/0.dcm";
  auto gone = vanishes(slice, "files must not change during a run");  // the last in space
  gone.name = "s2";
  auto all_gone = vanishes("s2", "s2");
  all_gone.act = [](const TempDir& dir) {
    fs::remove_all(dir.path() + "/s2");
    return nullptr;
  };
  for (const Harm& harm :
       {truncated(slice, "s2/0.dcm"), replaced(slice, "wrong magic", "hello", "s2/0.dcm"), gone,
        all_gone, disk_fails(slice), disk_fails("s2/README"), becomes_a_pipe(slice, "s2"),
        edited("rows that overflow", slice, "s2/0.dcm", [](auto& bytes) {
          const std::string tag = {'\x28', '\0', '\x10', '\0', 'U', 'S', '\x02', '\0'};
          const size_t at = to_text(bytes).find(tag);
          ASSERT_NE(at, std::string::npos);
          bytes[at + 8] = bytes[at + 9] = 0xff;
        })}) {
    Harm one = harm;
    if (one.fault == "becomes a pipe") one.name = "s2";
    expect_policies(set, one);
  }
}

// Calls that are interrupted, or give a few bytes at a time, change nothing.
TEST(BadVolumesTest, ShortAndInterruptedReadsChangeNothing) {
  struct Slow {
    SmallSet set;
    std::string file;
  };
  for (const Slow& slow : {Slow{folder_set(false), "in/a/2.jpg"},
                           Slow{folder_set(true), "in/a/2.png"}, Slow{nifti_set(false), "x/2.nii"},
                           Slow{nifti_set(true), "x/2.nii.gz"}, Slow{npy_set(), "2.npy"}}) {
    SCOPED_TRACE(slow.set.format);
    const TempDir dir;
    slow.set.write(dir);
    Sample plain, trickled;
    read_decoded(*slow.set.open(dir), 2, plain);
    const FailingDisk disk(dir.file(slow.file), DiskFault::kTrickle);
    read_decoded(*slow.set.open(dir), 2, trickled);
    EXPECT_GT(FailingDisk::calls(), 10);
    if (plain.is<Volume>()) {
      EXPECT_EQ(plain.volume().values, trickled.volume().values);
    } else {
      EXPECT_EQ(plain.image().pixels, trickled.image().pixels);
    }
  }
}

}  // namespace
}  // namespace fovea::data
