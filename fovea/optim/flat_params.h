// Parameters and gradients gathered into one buffer each, so that an update, a norm or an average
// is one pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fovea/optim/optimizer.h"

namespace fovea::optim {

// Where one parameter lies in a flat buffer, in elements.
struct Segment {
  int64_t begin = 0;
  int64_t size = 0;
};

class FlatParams {
 public:
  // Moves the parameters' values into one buffer and re-points each parameter (the same autograd
  // leaf) and its gradient at views of the buffers; or takes over the buffers that they lie in
  // (ParamSpec::place). Throws Error for anything but distinct leaves of one device, all float32 or
  // all float64 (which tests compare in).
  explicit FlatParams(std::vector<ParamSpec> params);

  const std::vector<ParamSpec>& params() const { return params_; }
  const std::vector<Segment>& segments() const { return segments_; }
  const at::Tensor& param() const { return buffers_.values; }
  // Of buffers that were taken over: see FlatBuffers; else undefined.
  const at::Tensor& copy() const { return buffers_.copy; }

  // The gradients. A gradient that someone dropped or replaced since the last call is taken in
  // (none: zeros) and becomes a view again.
  const at::Tensor& grad();
  void zero_grad();

  // A zeroed buffer laid out like the parameters.
  at::Tensor make_buffer(bool is_pinned = false) const;
  // The parts of a buffer laid out like the parameters: views, in parameter order, shaped as the
  // parameters are.
  std::vector<at::Tensor> views(const at::Tensor& buffer) const;

  // To be called after the values changed behind autograd's back: a graph that still holds an old
  // value then throws instead of using the new one.
  void mark_changed();

 private:
  void make_buffers();
  void take_over_buffers();

  std::vector<ParamSpec> params_;
  std::vector<Segment> segments_;
  int64_t num_elements_ = 0;
  kernels::FlatBuffers buffers_;        // [num_elements_] each
  std::vector<at::Tensor> grad_views_;  // shaped as the parameters
};

// Copies `saved` into `target`, both by name. Throws CheckpointError naming the first difference
// unless the sets of names and the shapes are equal; nothing is copied then. `what` names the
// state in the message.
void copy_by_name(const std::map<std::string, at::Tensor>& saved,
                  const std::map<std::string, at::Tensor>& target, const std::string& what);

// A piece of one segment: positions [begin, end) of the flat buffer.
struct Tile {
  size_t segment = 0;
  int64_t begin = 0, end = 0;
};

// All segments cut into tiles of a fixed size: which there are depends on sizes alone.
std::vector<Tile> tiles_of(const std::vector<Segment>& segments);

// Runs `body(segment index, begin, end)` over all tiles on ATen's threads.
void for_each_tile(const std::vector<Segment>& segments,
                   const std::function<void(size_t, int64_t, int64_t)>& body);

}  // namespace fovea::optim
