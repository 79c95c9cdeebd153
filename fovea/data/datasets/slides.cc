#include "fovea/data/datasets/slides.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/file_list.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/large_image/slide.h"
#include "fovea/data/large_image/tissue.h"
#include "fovea/data/latest_used.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/resize_image.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostMaskBytes = int64_t{256} << 20;  // of what a tile looks at

bool may_be_slide(std::string_view name) {
  const std::string ending = lower_ending(name);
  return is_slide_name(name) || ending == ".tif" || ending == ".tiff";
}

// A slide that is open, and what is known of it.
struct OpenSlide {
  std::shared_ptr<const Slide> slide;
  TissueCells tissue;
  int64_t level = 0;
  int64_t side = 0;  // of the square of `level` that becomes a tile
  std::unique_ptr<RegionSource> mask;
  std::mutex mask_lock;  // a RegionSource is of one thread
};

// The level for these microns a pixel, and how many of its pixels are one of a tile.
std::pair<int64_t, double> tile_scale_of(const Slide& slide, const SlidesConfig& config) {
  if (!config.mpp) return {find_level(slide, {.level = config.level}), 1.0};
  if (!slide.mpp()) {
    fail<ConfigError>(
        "{}: the slide does not say how many microns a pixel has; name a level in place of mpp: it "
        "has {}",
        slide.name(), slide.describe_levels());
  }
  int64_t level = -1;
  double shrink = 0;
  for (int64_t i = 0; i < std::ssize(slide.levels()); ++i) {
    const double mpp = *slide.mpp() * slide.levels()[static_cast<size_t>(i)].downsample;
    if (mpp > *config.mpp * kSameMpp) continue;
    level = i;
    shrink = *config.mpp / mpp;
  }
  if (level < 0) {
    fail<ConfigError>("{}: no level as fine as {} microns a pixel; the slide has {}", slide.name(),
                      *config.mpp, slide.describe_levels());
  }
  return {level, shrink <= kSameMpp ? 1.0 : shrink};
}

class SlidesDataset : public Dataset {
 public:
  SlidesDataset(const SlidesConfig& config, ImageFiles files)
      : config_(config), files_(std::move(files)), open_(config.open_slides) {}

  int64_t size() const override { return files_.images.size() * config_.tiles; }
  bool has_masks() const override { return files_.masks.size() > 0; }
  const std::vector<std::string>& class_names() const override { return files_.class_names; }
  int64_t num_classes() const override { return files_.num_classes; }
  VolumeSize size_of(int64_t /*index*/) const override {
    return {1, config_.tile_size, config_.tile_size};
  }
  std::string describe(int64_t index) const override {
    return fmt::format("{} tile {} of {}",
                       printable(files_.path_of(files_.images, index / config_.tiles)),
                       index % config_.tiles, config_.tiles);
  }

  void read(int64_t index, Sample& sample) const override {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    const int64_t number = index / config_.tiles;
    const auto opened = open_.get(number, [&] { return open(number); });
    RandomStream random = sample.random ? *sample.random : augmentation_stream(0, 0, index);
    const PixelBox box = draw_box(*opened, random);
    read_tile(*opened, box, sample.become<Image>());
    sample.label = files_.labels[static_cast<size_t>(number)];
    if (has_masks()) read_mask(*opened, number, box, sample.mask);
  }

 private:
  std::shared_ptr<OpenSlide> open(int64_t number) const {
    auto opened = std::make_shared<OpenSlide>();
    opened->slide = std::make_shared<const Slide>(files_.path_of(files_.images, number));
    const Slide& slide = *opened->slide;
    const auto [level, shrink] = tile_scale_of(slide, config_);
    opened->level = level;
    opened->side = std::llround(static_cast<double>(config_.tile_size) * shrink);
    const ImageSize& size = slide.levels()[static_cast<size_t>(level)].size;
    if (size.height < opened->side || size.width < opened->side) {
      fail<DataError>(
          "{}: level {} of {} x {} pixels is smaller than a tile of {}; choose a finer "
          "level or smaller tiles",
          slide.name(), level, size.width, size.height, opened->side);
    }
    if (config_.tissue) {
      opened->tissue = find_tissue(opened->slide);
      if (opened->tissue.tissue.empty()) {
        fail<DataError>(
            "{}: no tissue: no part has more saturation than the rest; remove the slide, or set "
            "tissue: false",
            slide.name());
      }
    }
    if (has_masks()) open_mask(number, *opened);
    return opened;
  }

  void open_mask(int64_t number, OpenSlide& opened) const {
    opened.mask = open_region_source(files_.path_of(files_.masks, number));
    const RegionFormat& format = opened.mask->format();
    if (format.channels != 1 || format.type != ScalarType::kUint8) {
      fail<DataError>("{}: a mask of {} channels of {}; expected the class of each pixel in a byte",
                      opened.mask->name(), format.channels, name_of(format.type));
    }
    const ImageSize& whole = opened.slide->levels().front().size;
    const double down = static_cast<double>(whole.height) / static_cast<double>(format.size.height);
    const double across = static_cast<double>(whole.width) / static_cast<double>(format.size.width);
    if (std::abs(std::log(down / across)) > 0.01) {
      fail<DataError>(
          "{}: a mask of {} x {} pixels for a slide of {} x {} ({}); expected the same shape, at "
          "any "
          "scale",
          opened.mask->name(), format.size.width, format.size.height, whole.width, whole.height,
          opened.slide->name());
    }
  }

  // A square of the level whose middle is tissue, moved to lie inside.
  PixelBox draw_box(const OpenSlide& opened, RandomStream& random) const {
    const ImageSize& size = opened.slide->levels()[static_cast<size_t>(opened.level)].size;
    const int64_t side = opened.side;
    double y = 0, x = 0;
    if (config_.tissue) {
      const TissueCells& cells = opened.tissue;
      const uint32_t cell = cells.tissue[random.below(static_cast<uint32_t>(cells.tissue.size()))];
      y = cells.top(cell) + random.uniform(0, cells.height());
      x = cells.left(cell) + random.uniform(0, cells.width());
      y = y * static_cast<double>(size.height) - static_cast<double>(side) / 2;
      x = x * static_cast<double>(size.width) - static_cast<double>(side) / 2;
    } else {
      y = random.uniform(0, static_cast<double>(size.height - side + 1));
      x = random.uniform(0, static_cast<double>(size.width - side + 1));
    }
    const auto inside = [side](double start, int64_t whole) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::floor(start)), 0, whole - side);
    };
    return {inside(y, size.height), inside(x, size.width), {side, side}};
  }

  void read_tile(const OpenSlide& opened, const PixelBox& box, Image& tile) const {
    const ImageSize size = {config_.tile_size, config_.tile_size};
    const bool is_shrunk = opened.side != config_.tile_size;
    Image read_pixels;
    Image& pixels = is_shrunk ? read_pixels : tile;
    reshape(pixels, box.size, 3);
    opened.slide->read(opened.level, box, pixels.pixels);
    if (!is_shrunk) return;
    ResizeScratch scratch;
    resize(ImageView(pixels), size, Interpolation::kBilinear, tile, scratch);
  }

  // The class at the middle of each pixel of the tile.
  void read_mask(OpenSlide& opened, int64_t number, const PixelBox& box, LabelMap& mask) const {
    const ImageSize& level = opened.slide->levels()[static_cast<size_t>(opened.level)].size;
    const ImageSize& whole = opened.mask->format().size;
    const auto places = [&](int64_t start, int64_t of_level, int64_t of_mask) {
      std::vector<int64_t> all(static_cast<size_t>(config_.tile_size));
      const double pixel =
          static_cast<double>(box.size.height) / static_cast<double>(config_.tile_size);
      for (size_t i = 0; i < all.size(); ++i) {
        const double middle = static_cast<double>(start) + (static_cast<double>(i) + 0.5) * pixel;
        all[i] = std::min(static_cast<int64_t>(middle * static_cast<double>(of_mask) /
                                               static_cast<double>(of_level)),
                          of_mask - 1);
      }
      return all;
    };
    const auto rows = places(box.top, level.height, whole.height);
    const auto columns = places(box.left, level.width, whole.width);
    const PixelBox part = {rows.front(),
                           columns.front(),
                           {rows.back() - rows.front() + 1, columns.back() - columns.front() + 1}};
    if (part.size.height > kMostMaskBytes / part.size.width) {
      fail<DataError>(
          "{}: a tile looks at {} x {} pixels of it; expected at most {}: save the mask "
          "at the scale of the tiles",
          opened.mask->name(), part.size.width, part.size.height, kMostMaskBytes);
    }
    std::vector<uint8_t> values(static_cast<size_t>(part.size.height * part.size.width));
    {
      const std::lock_guard guard(opened.mask_lock);
      opened.mask->read(part, values);
    }
    mask.size = {1, config_.tile_size, config_.tile_size};
    mask.classes.resize(rows.size() * columns.size());
    size_t place = 0;
    for (const int64_t y : rows) {
      for (const int64_t x : columns) {
        const int64_t value =
            values[static_cast<size_t>((y - part.top) * part.size.width + x - part.left)];
        const auto found = files_.class_of(value);
        if (!found) {
          files_.fail_as_no_class(printable(files_.path_of(files_.masks, number)), x, y, value);
        }
        mask.classes[place++] = *found;
      }
    }
  }

  SlidesConfig config_;
  ImageFiles files_;
  mutable LatestUsed<OpenSlide> open_;
};

}  // namespace

void SlidesConfig::validate(ConfigIssues& issues) const {
  if (level && mpp) issues.add("mpp", "a level is given too; give one of them");
  check_class_count(num_classes, class_names, issues);
}

std::shared_ptr<const Dataset> build_slides_dataset(const SlidesConfig& config,
                                                    EmptyClasses empty_classes) {
  ImageFiles files;
  if (is_folder(config.path)) {
    files = list_class_folders(
        {.path = config.path, .class_names = config.class_names}, empty_classes, may_be_slide,
        "slide (.svs, .ndpi, .mrxs, .scn, .vms, .vmu, .svslide, .bif, .tif)", "slides");
  } else {
    files = read_image_list({.path = config.path,
                             .root = config.root,
                             .class_names = config.class_names,
                             .num_classes = config.num_classes,
                             .ignored_class = config.ignored_class});
  }
  return std::make_shared<SlidesDataset>(config, std::move(files));
}

}  // namespace fovea::data
