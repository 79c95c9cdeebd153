// Whole-slide images of microscopes (SVS, NDPI, MRXS, ...) through OpenSlide: a pyramid of levels,
// read by region.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/large_image/region_source.h"

namespace fovea::data {

struct SlideLevel {
  ImageSize size;
  double downsample = 1;  // pixels of level 0 a pixel, along each side
};

// Thread-safe: reads of any number of threads share what OpenSlide keeps of a slide.
class Slide {
 public:
  // Reads what stands before the pixels. Throws DataError: no such file, no slide that OpenSlide
  // knows, a level or a tile that is too large; ConfigError: this build has no OpenSlide.
  explicit Slide(const std::string& path);
  ~Slide();
  Slide(const Slide&) = delete;
  Slide& operator=(const Slide&) = delete;

  // What messages call it.
  const std::string& name() const { return name_; }
  const std::vector<SlideLevel>& levels() const { return levels_; }
  // Microns a pixel of level 0, where the slide says.
  std::optional<double> mpp() const { return mpp_; }
  // "0: 46000 x 32914 (0.5 um), 1: ..." for messages.
  std::string describe_levels() const;

  // The pixels [h, w, 3] of a rectangle of a level, in that level's pixels. What the scanner left
  // out is white. A pixel is the same whichever rectangle it is read with. Throws DataError: the
  // file is truncated or damaged there.
  void read(int64_t level, const PixelBox& region, std::span<uint8_t> rgb) const;

 private:
  struct Handle;
  std::shared_ptr<Handle> handle() const;
  void read_block(int64_t level, const PixelBox& block, uint8_t* rgb) const;
  std::unique_ptr<RegionSource> open_narrow(const ImageSize& size) const;
  void read_narrow(const RegionSource& source, const PixelBox& region, uint8_t* rgb) const;

  std::string path_, name_;
  std::vector<SlideLevel> levels_;
  std::optional<double> mpp_;
  struct State;
  std::unique_ptr<State> state_;
};

// A level stands for microns a pixel within this factor: scanners are calibrated one by one, and
// 0.2527 is "0.25".
inline constexpr double kSameMpp = 1.05;

// The level that a scale names. Throws ConfigError, listing the levels: no such level; none with
// these microns a pixel, within 5 %; the slide does not say its own.
int64_t find_level(const Slide& slide, const SlideScale& scale);

// Ends as files do that OpenSlide reads, though their first bytes may be those of TIFF or JPEG.
bool is_slide_name(std::string_view path);

// One level of a slide.
std::unique_ptr<RegionSource> open_slide_level(std::shared_ptr<const Slide> slide, int64_t level);

}  // namespace fovea::data
