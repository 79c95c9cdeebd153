// Weights in the dtype of a product. A float32 weight that is trained in bfloat16 would be cast in
// each forward and backward pass of each micro-batch; a copy that is kept is made once after each
// change, or by the pass that makes the change.
//
// Note [Copies of weights]. A copy hangs on its weight, so that the layer that has the weight has
// both: as the tensor's BackendMeta, where libtorch itself has nothing on CPUs and GPUs. Whatever
// multiplies by the weight finds the copy there: the forward pass, and the backward one, whose node
// has saved the weight. It costs a pointer and a comparison of versions; a lock is taken to make a
// copy alone. A view of the weight, or another tensor with its values, has none; but for the view
// [N, K] of all of a convolution's weight [N, ...], which is what is multiplied.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fovea/kernels/linear/int8_range.h"

namespace fovea::kernels {

namespace cpu {
struct Int8Weight;
}

// `weight` in `dtype`: itself, the copy that a WeightCopies keeps of it, or a cast; the same bits.
// Has no gradient: for autograd Functions. Not to be written to, nor kept longer than the weight
// stays as it is.
at::Tensor own_weight(const at::Tensor& weight, at::ScalarType dtype);

// What cpu::pack_strips makes of `weight` [N, K] transposed, where a WeightCopies keeps that; else
// null. Not to be kept longer than the weight stays as it is.
const float* kept_strips(const at::Tensor& weight);

// The same of its values in bfloat16.
const float* kept_rounded_strips(const at::Tensor& weight);

// What cpu::pack_panels makes of `weight` [N, K] of float32, transposed and in bfloat16, where a
// WeightCopies keeps that; else null. As kept_strips.
const uint16_t* kept_panels(const at::Tensor& weight);

// The codes of 8-bit integers of `weight` [N, K], where WeightCopies::use_int8 asked for them; else
// null. As kept_strips.
const cpu::Int8Weight* kept_int8(const at::Tensor& weight);

// Tells who watches the weight (WeightCopies::watch), and whether somebody does.
void tell_watcher(const at::Tensor& weight, const at::Tensor& rows);
bool has_watcher(const at::Tensor& weight);
// Whether somebody watches any weight in this process.
bool are_weights_watched();

// How often in this process it was changed how weights are multiplied, or who watches them.
int64_t weight_arrangement();

// bfloat16 copies of float32 weights, an optimizer's or those of a loaded model, side by side, as
// long as it lives. A copy is stale once its weight's version has moved on, whoever wrote to it;
// what changes values without that says so (Optimizer::mark_changed). Not for weights that are
// gathered, whose storage is filled again with other values in the same version.
class WeightCopies {
 public:
  // A weight and where it begins in a flat buffer, in elements.
  struct Place {
    at::Tensor weight;  // float32 leaf, a view of that buffer: its address is no other tensor's
    int64_t begin = 0;
  };
  // Of weights that are in no flat buffer, each alone in its memory. Those of other dtypes, or not
  // contiguous, are left out. Keeps packed strips or panels, too, of the weights that products on
  // this processor take so: they are multiplied by again and again, and seldom change.
  static std::unique_ptr<WeightCopies> of_model(const std::vector<at::Tensor>& weights);
  WeightCopies(const std::vector<Place>& places, int64_t num_elements);
  ~WeightCopies();
  WeightCopies(const WeightCopies&) = delete;
  WeightCopies& operator=(const WeightCopies&) = delete;

  // Whether linear layers multiply the weight, [N, K] with K at most cpu::kMostInt8Depth and one of
  // those that are copied, as codes of 8-bit integers; not from the start. While no other thread
  // multiplies by it.
  void use_int8(const at::Tensor& weight, bool uses);
  // What the rows that such a weight multiplies are held to; none, as from the start: each to its
  // own range. While no other thread multiplies by it.
  void hold_rows(const at::Tensor& weight, const std::optional<Int8Range>& range);

  // Told of the rows [M, K] that linear layers multiply by the weight, in their dtype, on the
  // thread that does; empty: nobody is.
  using Watcher = std::function<void(const at::Tensor& rows)>;
  void watch(const at::Tensor& weight, Watcher watcher);

  // [num_elements] bfloat16, laid out like the weights; undefined until a copy was asked for.
  at::Tensor flat() const;

  // Which copies are as their weights, by place; and, after the weights and flat() have changed
  // alike, that those still are.
  std::vector<bool> are_current() const;
  // Makes those again that were made before and whose weights have changed.
  void make_current();
  void stay_current(const std::vector<bool>& were_current);

 private:
  friend at::Tensor own_weight(const at::Tensor& weight, at::ScalarType dtype);
  friend const float* kept_strips(const at::Tensor& weight);
  friend const float* kept_rounded_strips(const at::Tensor& weight);
  friend const uint16_t* kept_panels(const at::Tensor& weight);
  friend const cpu::Int8Weight* kept_int8(const at::Tensor& weight);
  friend void tell_watcher(const at::Tensor& weight, const at::Tensor& rows);
  friend bool has_watcher(const at::Tensor& weight);

  struct Buffer;
  struct Copy;
  static Copy* with_packed(const at::Tensor& weight);  // null: nothing packed is kept of it
  static Copy* hanging_on(const at::Tensor& weight);   // null: there is none
  Copy& own_copy(const at::Tensor& weight) const;      // that hangs on it
  struct Copied {
    at::Tensor weight;
    c10::intrusive_ptr<Copy> copy;  // hangs on it, unless a later owner's does
  };

  std::vector<Copied> copies_;
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace fovea::kernels
