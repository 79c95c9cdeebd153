// A model of small windows over whole images and volumes: predictions of overlapping windows,
// blended, with the places and the weights of MONAI's sliding_window_inference.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/tiles/tile_blend.h"

namespace fovea::train {

struct SlidingWindowConfig {
  double overlap = 0.25;
  std::string blend = "gaussian";
  double sigma_scale = 0.125;
  int64_t batch_size = 1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("overlap", self.overlap, "share of a window that the next one repeats",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("blend", self.blend,
            "constant: windows count the same where they overlap; gaussian: less towards a "
            "window's edges",
            {.choices = {"constant", "gaussian"}});
    v.field("sigma_scale", self.sigma_scale, "width of the Gaussian over the window's side",
            {.min = 0, .exclusive_min = true});
    v.field("batch_size", self.batch_size, "windows in one forward pass",
            {.min = 1, .unit = "windows"});
  }
};

// images: [B, C, sides]; window: a side each, [H, W] or [D, H, W]; predict: [n, C, window] -> [n,
// K, window]. -> [B, K, sides] float32 on the CPU. An axis shorter than the window is filled up
// with zeros, half on each side, and cut off again. Windows start floor(side * overlap) voxels
// before the end of the one before; the last one ends at the edge.
at::Tensor sliding_window(const at::Tensor& images, at::IntArrayRef window,
                          const SlidingWindowConfig& config,
                          const std::function<at::Tensor(const at::Tensor&)>& predict);

// The windows over an image or volume of this size, none of whose axes is shorter than a window.
data::Tiling window_tiling(const data::VolumeSize& size, at::IntArrayRef window,
                           const SlidingWindowConfig& config);

// The same formula for what no memory holds: predict(first, count) -> [count, K, window] of the
// windows from `first` on, config.batch_size at a time, in order; `sink` takes finished slabs, as
// TileBlender's.
void blend_windows(const data::Tiling& windows, const SlidingWindowConfig& config,
                   const std::function<at::Tensor(int64_t first, int64_t count)>& predict,
                   const data::TileBlender::Sink& sink);

}  // namespace fovea::train
