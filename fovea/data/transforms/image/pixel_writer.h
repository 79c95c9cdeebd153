// The last step of a pipeline: rows of bytes into the planes that the model takes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/stage_timer.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/resample.h"

namespace fovea::data {

// Where one image goes: [C, H, W] floats, normalised, or the bytes themselves, to be normalised on
// the device. One of the two is set.
struct PixelPlanes {
  float* floats = nullptr;
  uint8_t* bytes = nullptr;
  int64_t size = 0;  // C * H * W
};

// Immutable: one serves all threads.
class PixelWriter {
 public:
  // Throws ConfigError: lists of `normalize` that do not fit `channels`.
  PixelWriter(const NormalizeConfig& normalize, int64_t channels);

  int64_t channels() const { return static_cast<int64_t>(values_.size()); }
  const std::vector<float>& mean() const { return mean_; }  // [C]
  const std::vector<float>& std() const { return std_; }    // [C]

  // Row y, pixels [W, C], of an image of this size: out = (byte / 255 - mean) / std in float32,
  // each operation rounded, as torchvision's.
  void write_row(const uint8_t* pixels, int64_t y, ImageSize size, PixelPlanes out) const;

 private:
  std::vector<float> mean_;
  std::vector<float> std_;
  std::vector<std::array<float, 256>> values_;  // [C]: what each byte becomes
  bool is_computed_ = false;  // whether arithmetic on vectors gives the values of the table
};

// Hands the rows of a result on to a writer.
class PlaneSink : public RowSink {
 public:
  PlaneSink(const PixelWriter& writer, ImageSize size, PixelPlanes out, StageTimer* timer)
      : writer_(writer), size_(size), out_(out), timer_(timer) {}
  void row(int64_t y, const uint8_t* pixels) override {
    const StageScope scope(timer_, Stage::kWrite);
    writer_.write_row(pixels, y, size_, out_);
  }

 private:
  const PixelWriter& writer_;
  ImageSize size_;
  PixelPlanes out_;
  StageTimer* timer_;
};

}  // namespace fovea::data
