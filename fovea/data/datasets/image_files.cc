#include "fovea/data/datasets/image_files.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/image/image_header.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {

namespace fs = std::filesystem;

void PathList::add(std::string_view path) {
  text_ += path;
  ends_.push_back(text_.size());
}

std::string_view PathList::view(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  const size_t first = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(first, ends_[i] - first);
}

void ImageFiles::find_path(const PathList& paths, int64_t index, std::string& path) const {
  FOVEA_CHECK(index >= 0 && index < paths.size(), "index={}; expected 0 to {}", index,
              paths.size() - 1);
  const std::string_view name = paths.view(index);
  path.clear();
  const bool is_below_root = !name.starts_with('/') && !root.empty();
  if (is_below_root) path.append(root).append(root.ends_with('/') ? "" : "/");
  path.append(name);
}

std::string ImageFiles::path_of(const PathList& paths, int64_t index) const {
  std::string path;
  find_path(paths, index, path);
  return path;
}

void ImageFiles::fail_as_no_class(const std::string& name, int64_t x, int64_t y,
                                  int64_t value) const {
  fail<DataError>("{}: pixel ({}, {}) has class {}; expected 0 to {}, or {} for none", name, x, y,
                  value, num_classes - 1, ignored_class);
}

std::string ImageFilesDataset::describe(int64_t index) const {
  return printable(files_.path_of(files_.images, index));
}

void ImageFilesDataset::read(int64_t index, Sample& sample) const {
  thread_local std::string path;
  files_.find_path(files_.images, index, path);
  auto& encoded = sample.become<EncodedImage>();
  read_image_file(path, encoded.buffer);
  encoded.bytes = encoded.buffer;
  sample.label = files_.labels[static_cast<size_t>(index)];
  if (has_masks()) read_mask(index, sample);
}

void ImageFilesDataset::read_mask(int64_t index, Sample& sample) const {
  thread_local Image mask;
  const auto bytes = sample.as<EncodedImage>().bytes;
  Image& image = sample.become<Image>();
  decode_image(bytes, describe(index), image);
  const std::string path = files_.path_of(files_.masks, index);
  const std::string name = printable(path);
  load_image(path, name, mask);
  if (mask.channels != 1) {
    fail<DataError>("{}: a mask with {} channels; expected a gray PNG with the class of each pixel",
                    name, mask.channels);
  }
  if (mask.height != image.height || mask.width != image.width) {
    fail<DataError>("{}: a mask of {} x {} pixels for an image of {} x {} ({}); make them equal",
                    name, mask.width, mask.height, image.width, image.height, describe(index));
  }
  sample.mask.size = {1, mask.height, mask.width};
  sample.mask.classes.resize(mask.pixels.size());
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    const auto found = files_.class_of(mask.pixels[i]);
    if (!found) {
      files_.fail_as_no_class(name, static_cast<int64_t>(i) % mask.width,
                              static_cast<int64_t>(i) / mask.width, mask.pixels[i]);
    }
    sample.mask.classes[i] = *found;
  }
}

VolumeSize ImageFilesDataset::size_of(int64_t index) const {
  const auto size = image_file_size(files_.path_of(files_.images, index));
  return size ? VolumeSize{1, size->height, size->width} : Dataset::size_of(index);
}

std::unique_ptr<RegionSource> ImageFilesDataset::open_regions(int64_t index) const {
  const std::string ending = lower_ending(files_.images.view(index));
  const bool is_tiff = ending == ".tif" || ending == ".tiff";
  return is_tiff && !has_masks() ? open_tiff_pixels(files_.path_of(files_.images, index)) : nullptr;
}

bool ImageFilesDataset::read_region(int64_t index, const VolumeRegion& region,
                                    Sample& sample) const {
  const auto source = open_regions(index);
  if (source == nullptr) return false;
  const auto& [size, channels, type, block_height] = source->format();
  check_whole(*this, index, {1, size.height, size.width}, region);
  const PixelBox box = {region.start[1], region.start[2], {region.size.height, region.size.width}};
  Image& image = sample.become<Image>();
  reshape(image, box.size, channels);
  source->read(box, image.pixels);
  sample.label = files_.labels[static_cast<size_t>(index)];
  return true;
}

std::vector<std::string> list_image_files(const std::string& folder, UnreadFiles& unread) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || entry->is_directory(ignored)) continue;
    if (is_image_name(name)) {
      names.push_back(name);
    } else {
      unread.add(entry->path().string());
    }
  }
  if (error) {
    fail<DataError>("{}: cannot list the folder ({}); check the path and its permissions",
                    printable(folder), error.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace fovea::data
