#include "fovea/data/large_image/slide.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/parse_number.h"
#include "fovea/data/image/gray_and_colour.h"
#include "fovea/data/large_image/slide_check.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/file_endings.h"

#ifdef FOVEA_OPENSLIDE_LIBRARY
#include <tiffio.h>

#include "fovea/data/large_image/openslide_library.h"
#endif

namespace fovea::data {
#ifdef FOVEA_OPENSLIDE_LIBRARY

namespace {

constexpr int32_t kMaxLevels = 64;
// A read's memory, and the side of blocks of levels whose pixels do not lie on those of level 0.
constexpr int64_t kBandPixels = int64_t{1} << 20, kBlockSide = 512;

// What it would print of files that OpenSlide opens; TiffHandle has handlers of its own.
void silence_libtiff() {
  static const bool kIsSilent = [] {
    TIFFSetWarningHandler(nullptr);
    TIFFSetErrorHandler(nullptr);
    return true;
  }();
  static_cast<void>(kIsSilent);
}

// Finite and above 0; empty: it is no such number, or there is no text.
std::optional<double> positive_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const auto number = parse_number<double>(text);
  return number && std::isfinite(*number) && *number > 0 ? number : std::nullopt;
}

bool is_whole(double downsample) { return std::abs(downsample - std::round(downsample)) < 1e-9; }

// Colours multiplied by alpha, over white.
void over_white(const uint32_t* argb, int64_t count, uint8_t* rgb) {
  for (int64_t i = 0; i < count; ++i, rgb += 3) {
    const uint32_t left = 255 - (argb[i] >> 24);
    for (int c = 0; c < 3; ++c) {
      const uint32_t value = (argb[i] >> (16 - 8 * c) & 255) + left;
      rgb[c] = static_cast<uint8_t>(std::min<uint32_t>(value, 255));
    }
  }
}

}  // namespace

// An error of OpenSlide stays with its handle: the next reader opens another one.
struct Slide::Handle {
  explicit Handle(const std::string& path) : slide(openslide_library().open(path.c_str())) {}
  ~Handle() {
    if (slide != nullptr) openslide_library().close(slide);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  const char* error() const { return openslide_library().get_error(slide); }
  std::optional<double> number(const std::string& name) const {
    return positive_number(openslide_library().get_property_value(slide, name.c_str()));
  }
  std::string text(const char* name) const {
    const char* value = openslide_library().get_property_value(slide, name);
    return value == nullptr ? "" : value;
  }
  // Of a plain TIFF pyramid the resolution is TIFF's.
  std::optional<double> tiff_mpp() const {
    const auto resolution = number("tiff.XResolution");
    const auto unit = text("tiff.ResolutionUnit");
    if (!resolution || (unit != "centimeter" && unit != "inch")) return std::nullopt;
    return (unit == "inch" ? 25400.0 : 10000.0) / *resolution;
  }

  openslide_t* slide;
};

// Note [Levels narrower than a tile]
// OpenSlide 3.4.1 asks libtiff for whole tiles as RGBA, and libtiff from 4.5.0 on gives rows of the
// image's width where the image is narrower than a tile: OpenSlide then shows rows that are
// shifted, without an error. Only its own decoders of JPEG and JPEG 2000 are spared. So such a
// level of a TIFF file is read by open_tiff where that can, which it cannot of JPEG 2000.
struct Slide::State {
  std::mutex lock;
  std::shared_ptr<Handle> handle;
  std::mutex narrow_lock;  // a RegionSource is of one thread
  std::map<int64_t, std::unique_ptr<RegionSource>> narrow;
};

// The image of a TIFF file with the size of a level; null: none that open_tiff reads.
std::unique_ptr<RegionSource> Slide::open_narrow(const ImageSize& size) const {
  const auto most = std::ssize(levels_) + 8;  // thumbnail, label and macro image beside the levels
  for (int64_t directory = 0; directory < most; ++directory) {
    try {
      auto source = open_tiff(path_, directory);
      if (source->format().size == size && source->format().type == ScalarType::kUint8)
        return source;
    } catch (const DataError&) {  // no such image, or one that only OpenSlide reads
    }
  }
  return nullptr;
}

void Slide::read_narrow(const RegionSource& source, const PixelBox& region, uint8_t* rgb) const {
  const int64_t pixels = region.size.height * region.size.width;
  const int64_t channels = source.format().channels;
  if (channels == 3) return source.read(region, {rgb, static_cast<size_t>(pixels * 3)});
  if (channels != 1) {
    fail<DataError>(
        "{}: a level of {} channels that is narrower than its tiles, which OpenSlide does not read "
        "right; choose another level",
        name_, channels);
  }
  std::vector<uint8_t> gray(static_cast<size_t>(pixels));
  source.read(region, gray);
  gray_to_rgb(gray.data(), pixels, rgb);
}

std::shared_ptr<Slide::Handle> Slide::handle() const {
  const std::lock_guard guard(state_->lock);
  if (state_->handle == nullptr) {
    auto opened = std::make_shared<Handle>(path_);
    if (opened->slide == nullptr) {
      fail<DataError>(
          "{}: no whole-slide image that OpenSlide knows; expected one such as .svs, .ndpi, .mrxs, "
          "or a tiled TIFF with a pyramid",
          name_);
    }
    if (const char* error = opened->error()) {
      fail<DataError>("{}: the slide cannot be opened ({}); fetch the file again or remove it",
                      name_, printable(error));
    }
    state_->handle = std::move(opened);
  }
  return state_->handle;
}

Slide::Slide(const std::string& path)
    : path_(path), name_(printable(path)), state_(std::make_unique<State>()) {
  NamelessFile{path};  // a pipe or a device is nothing for OpenSlide
  silence_libtiff();
  check_slide(path);
  const auto opened = handle();
  const int32_t count = openslide_library().get_level_count(opened->slide);
  if (count < 1 || count > kMaxLevels)
    fail<DataError>("{}: {} levels; expected 1 to {}", name_, count, kMaxLevels);
  for (int32_t level = 0; level < count; ++level) {
    int64_t width = 0, height = 0;
    openslide_library().get_level_dimensions(opened->slide, level, &width, &height);
    const double downsample = openslide_library().get_level_downsample(opened->slide, level);
    const auto tile = [&, level](const char* side) {
      return opened->number(fmt::format("openslide.level[{}].tile-{}", level, side)).value_or(1);
    };
    if (width < 1 || height < 1 || width > kMaxRegionSide || height > kMaxRegionSide ||
        !std::isfinite(downsample) || downsample < 1 ||
        tile("width") * tile("height") * 4 > static_cast<double>(kMaxTiffTileBytes)) {
      fail<DataError>(
          "{}: level {} of {} x {} pixels, {} of level 0 each; expected sides of 1 to {}, and "
          "tiles "
          "of at most {} bytes",
          name_, level, width, height, downsample, kMaxRegionSide, kMaxTiffTileBytes);
    }
    levels_.push_back({{height, width}, downsample});
  }
  for (int64_t level = 0; level < count; ++level) {
    const ImageSize size = levels_[static_cast<size_t>(level)].size;
    const auto tile = opened->number(fmt::format("openslide.level[{}].tile-width", level));
    if (tile.value_or(1) <= static_cast<double>(size.width)) continue;
    if (auto source = open_narrow(size)) state_->narrow.emplace(level, std::move(source));
  }
  const auto x = opened->number(OPENSLIDE_PROPERTY_NAME_MPP_X);
  const auto y = opened->number(OPENSLIDE_PROPERTY_NAME_MPP_Y);
  mpp_ = x && y ? std::optional((*x + *y) / 2) : opened->tiff_mpp();
}

void Slide::read_block(int64_t level, const PixelBox& block, uint8_t* rgb) const {
  const double downsample = levels_[static_cast<size_t>(level)].downsample;
  const int64_t rows = std::max<int64_t>(kBandPixels / block.size.width, 1);
  std::vector<uint32_t> argb(
      static_cast<size_t>(std::min(rows, block.size.height) * block.size.width));
  const auto opened = handle();
  for (int64_t y = 0; y < block.size.height; y += rows) {
    const int64_t count = std::min(rows, block.size.height - y);
    openslide_library().read_region(opened->slide, argb.data(),
                                    std::llround(static_cast<double>(block.left) * downsample),
                                    std::llround(static_cast<double>(block.top + y) * downsample),
                                    static_cast<int32_t>(level), block.size.width, count);
    if (const char* error = opened->error()) {
      const std::string reason = printable(error);
      const std::lock_guard guard(state_->lock);
      if (state_->handle == opened) state_->handle = nullptr;
      fail<DataError>(
          "{}: {} x {} pixels of level {} at row {}, column {} cannot be read ({}); fetch the file "
          "again or remove it",
          name_, block.size.width, count, level, block.top + y, block.left, reason);
    }
    over_white(argb.data(), count * block.size.width, rgb + y * block.size.width * 3);
  }
}

// Where a pixel of a level is no whole number of pixels of level 0, in which OpenSlide is told
// places, it interpolates: blocks with fixed places are the same for every rectangle.
void Slide::read(int64_t level, const PixelBox& region, std::span<uint8_t> rgb) const {
  const ImageSize& whole = levels_.at(static_cast<size_t>(level)).size;
  const auto& [height, width] = region.size;
  FOVEA_CHECK(region.top >= 0 && region.left >= 0 && height > 0 && width > 0 &&
                  region.top + height <= whole.height && region.left + width <= whole.width &&
                  static_cast<int64_t>(rgb.size()) == height * width * 3,
              "{}: {} bytes for {}x{} pixels at row {}, column {} of level {}", name_, rgb.size(),
              height, width, region.top, region.left, level);
  if (const auto narrow = state_->narrow.find(level); narrow != state_->narrow.end()) {
    const std::lock_guard guard(state_->narrow_lock);
    return read_narrow(*narrow->second, region, rgb.data());
  }
  if (is_whole(levels_[static_cast<size_t>(level)].downsample)) {
    return read_block(level, region, rgb.data());
  }
  std::vector<uint8_t> block(static_cast<size_t>(kBlockSide * kBlockSide * 3));
  const int64_t bottom = region.top + height, right = region.left + width;
  for (int64_t y = region.top / kBlockSide * kBlockSide; y < bottom; y += kBlockSide) {
    for (int64_t x = region.left / kBlockSide * kBlockSide; x < right; x += kBlockSide) {
      const ImageSize size = {std::min(kBlockSide, whole.height - y),
                              std::min(kBlockSide, whole.width - x)};
      read_block(level, {y, x, size}, block.data());
      const int64_t first = std::max(x, region.left);
      const int64_t count = std::min(x + size.width, right) - first;
      for (int64_t row = std::max(y, region.top); row < std::min(y + size.height, bottom); ++row) {
        std::copy_n(block.data() + ((row - y) * size.width + first - x) * 3, count * 3,
                    rgb.data() + ((row - region.top) * width + first - region.left) * 3);
      }
    }
  }
}

#else

struct Slide::Handle {};
struct Slide::State {};

Slide::Slide(const std::string& path) : path_(path), name_(printable(path)) {
  fail<ConfigError>(
      "{}: this build reads no whole-slide images: OpenSlide was not found when it was built; "
      "install "
      "libopenslide-dev and build again, or save the level that you need as a tiled TIFF",
      name_);
}

void Slide::read(int64_t /*level*/, const PixelBox& /*region*/, std::span<uint8_t> /*rgb*/) const {}

#endif

Slide::~Slide() = default;

std::string Slide::describe_levels() const {
  std::string text;
  for (size_t i = 0; i < levels_.size(); ++i) {
    const auto& [size, downsample] = levels_[i];
    text += fmt::format("{}{}: {} x {}", i == 0 ? "" : ", ", i, size.width, size.height);
    if (mpp_) text += fmt::format(" ({:.4g} um)", *mpp_ * downsample);
  }
  return text;
}

int64_t find_level(const Slide& slide, const SlideScale& scale) {
  const auto& levels = slide.levels();
  if (scale.level && scale.mpp) {
    fail<ConfigError>("a level and microns a pixel (mpp) are given; give one of them");
  }
  if (!scale.mpp) {
    const int64_t level = scale.level.value_or(0);
    if (level >= 0 && level < static_cast<int64_t>(levels.size())) return level;
    fail<ConfigError>("{}: no level {}; the slide has {}", slide.name(), level,
                      slide.describe_levels());
  }
  if (!slide.mpp()) {
    fail<ConfigError>(
        "{}: the slide does not say how many microns a pixel has; name a level: it has {}",
        slide.name(), slide.describe_levels());
  }
  const auto error_of = [&](const SlideLevel& level) {
    return std::abs(std::log(*slide.mpp() * level.downsample / *scale.mpp));
  };
  const auto best = std::min_element(
      levels.begin(), levels.end(),
      [&](const SlideLevel& a, const SlideLevel& b) { return error_of(a) < error_of(b); });
  if (error_of(*best) > std::log(kSameMpp)) {
    fail<ConfigError>("{}: no level of {} microns a pixel, within 5 %; the slide has {}",
                      slide.name(), *scale.mpp, slide.describe_levels());
  }
  return best - levels.begin();
}

bool is_slide_name(std::string_view path) {
  constexpr std::array<std::string_view, 8> kEndings = {".svs", ".ndpi", ".mrxs",    ".scn",
                                                        ".vms", ".vmu",  ".svslide", ".bif"};
  return std::find(kEndings.begin(), kEndings.end(), lower_ending(path)) != kEndings.end();
}

namespace {

class SlideRegions : public RegionSource {
 public:
  SlideRegions(std::shared_ptr<const Slide> slide, int64_t level)
      : RegionSource(slide->name(), {.size = slide->levels().at(static_cast<size_t>(level)).size,
                                     .channels = 3,
                                     .block_height = 256}),
        slide_(std::move(slide)),
        level_(level) {}

 protected:
  void read_inside(const PixelBox& region, uint8_t* out) const override {
    slide_->read(level_, region,
                 {out, static_cast<size_t>(region.size.height * region.size.width * 3)});
  }

 private:
  std::shared_ptr<const Slide> slide_;
  int64_t level_;
};

}  // namespace

std::unique_ptr<RegionSource> open_slide_level(std::shared_ptr<const Slide> slide, int64_t level) {
  return std::make_unique<SlideRegions>(std::move(slide), level);
}

}  // namespace fovea::data
