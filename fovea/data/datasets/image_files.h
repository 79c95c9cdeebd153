// A data set of image files with a label each, and a mask where there is one: what formats that
// only differ in where paths and labels come from are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/large_image/region_source.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {

// Millions of paths: one string of all of them.
class PathList {
 public:
  void add(std::string_view path);
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  std::string_view view(int64_t index) const;  // until the next add
  std::string at(int64_t index) const { return std::string(view(index)); }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

struct ImageFiles {
  std::string root;             // paths are relative to it, or absolute
  PathList images;              // [N]
  std::vector<int64_t> labels;  // [N]; -1: none
  PathList masks;               // [N] or empty: gray PNG files, a class for each pixel
  int64_t ignored_class = 255;  // of masks: becomes -1, not labelled
  std::vector<std::string> class_names;
  int64_t num_classes = 0;

  // Where file `index` of `paths`, images or masks, is; into `path`, which keeps its memory.
  void find_path(const PathList& paths, int64_t index, std::string& path) const;
  std::string path_of(const PathList& paths, int64_t index) const;

  // What a mask's `value` says: its class, -1 for the ignored one; nothing where there is no such
  // class, which fail_as_no_class tells of mask `name` and pixel (x, y).
  std::optional<int32_t> class_of(int64_t value) const {
    if (value == ignored_class) return -1;
    if (value >= num_classes) return std::nullopt;
    return static_cast<int32_t>(value);
  }
  [[noreturn]] void fail_as_no_class(const std::string& name, int64_t x, int64_t y,
                                     int64_t value) const;
};

class ImageFilesDataset : public Dataset {
 public:
  explicit ImageFilesDataset(ImageFiles files) : files_(std::move(files)) {}
  int64_t size() const override { return files_.images.size(); }
  bool has_masks() const override { return files_.masks.size() > 0; }
  // Throws DataError: the file cannot be read; a mask of another size, in colour, or with a class
  // that there is not.
  // Decodes where there are masks, whose size is compared with the image's.
  void read(int64_t index, Sample& sample) const override;
  const std::vector<std::string>& class_names() const override { return files_.class_names; }
  int64_t num_classes() const override { return files_.num_classes; }
  VolumeSize size_of(int64_t index) const override;
  // Of TIFF files in tiles, without masks; see open_tiff_pixels.
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override;
  std::string describe(int64_t index) const override;

 private:
  std::unique_ptr<RegionSource> open_regions(int64_t index) const;
  // Decodes the image as well.
  void read_mask(int64_t index, Sample& sample) const;

  ImageFiles files_;
};

// Names of the image files right in `folder`, sorted as bytes; hidden ones are left out, and files
// of other kinds are added to `unread`. Throws DataError where it cannot be listed.
std::vector<std::string> list_image_files(const std::string& folder, UnreadFiles& unread);

}  // namespace fovea::data
