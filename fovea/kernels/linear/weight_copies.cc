#include "fovea/kernels/linear/weight_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <mutex>
#include <unordered_map>

#include "fovea/core/error.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {
namespace {

struct Owner {
  WeightCopies* copies;
  size_t place;
};

// Whose copies are whose weights'. The mutex guards the copies as well: backward passes have
// threads of their own.
struct Owners {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, Owner> by_weight;
};

Owners& owners() {
  static auto* all = new Owners;  // outlives every optimizer
  return *all;
}

}  // namespace

WeightCopies::WeightCopies(const std::vector<Place>& places, int64_t num_elements)
    : num_elements_(num_elements) {
  const std::lock_guard lock(owners().mutex);
  for (const auto& place : places) {
    FOVEA_CHECK(place.weight.scalar_type() == at::kFloat && place.weight.is_contiguous() &&
                    place.begin + place.weight.numel() <= num_elements,
                "WeightCopies: a weight is {} at {} of {}; expected float32, contiguous, within",
                place.weight.toString(), place.begin, num_elements);
    // A later owner of the same weight has the last word.
    owners().by_weight.insert_or_assign(place.weight.unsafeGetTensorImpl(),
                                        Owner{this, copies_.size()});
    copies_.push_back({.place = place, .data = place.weight.const_data_ptr(), .values = {}});
  }
}

std::unique_ptr<WeightCopies> WeightCopies::of_model(const std::vector<at::Tensor>& weights) {
  constexpr int64_t kCacheLine = 32;  // values of bfloat16
  std::vector<Place> places;
  int64_t end = 0;
  for (const auto& weight : weights) {
    if (weight.scalar_type() != at::kFloat || !weight.is_contiguous()) continue;
    places.push_back({weight, end});
    end += (weight.numel() + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  return std::make_unique<WeightCopies>(places, end);
}

WeightCopies::~WeightCopies() {
  const std::lock_guard lock(owners().mutex);
  for (const auto& copy : copies_) {
    const auto found = owners().by_weight.find(copy.place.weight.unsafeGetTensorImpl());
    if (found != owners().by_weight.end() && found->second.copies == this) {
      owners().by_weight.erase(found);
    }
  }
}

at::Tensor WeightCopies::flat() const {
  const std::lock_guard lock(owners().mutex);
  return flat_;
}

bool WeightCopies::is_current(const Copy& copy) const {
  return copy.version == copy.place.weight._version() &&
         copy.place.weight.const_data_ptr() == copy.data;
}

std::vector<bool> WeightCopies::are_current() const {
  const std::lock_guard lock(owners().mutex);
  std::vector<bool> result;
  for (const auto& copy : copies_) result.push_back(is_current(copy));
  return result;
}

void WeightCopies::make_current() {
  const std::lock_guard lock(owners().mutex);
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (copies_[i].version >= 0) current(i);
  }
}

void WeightCopies::stay_current(const std::vector<bool>& were_current) {
  const std::lock_guard lock(owners().mutex);
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (were_current.at(i)) copies_[i].version = copies_[i].place.weight._version();
  }
}

at::Tensor WeightCopies::current(size_t i) {
  auto& copy = copies_[i];
  const auto& weight = copy.place.weight;
  if (weight.const_data_ptr() != copy.data) return {};
  if (is_current(copy)) return copy.values;
  const c10::InferenceMode no_inference(false);  // the copies are written to outside of it, too
  const at::NoGradGuard no_grad;
  if (!flat_.defined()) {
    flat_ = at::empty({num_elements_}, weight.options().dtype(at::kBFloat16).requires_grad(false));
  }
  if (!copy.values.defined()) {
    copy.values = flat_.narrow(0, copy.place.begin, weight.numel()).view(weight.sizes());
  }
  const WorkScope work("fovea::weight_copy", 0, bytes_of({weight, copy.values}));
  copy.values.copy_(weight);
  copy.version = weight._version();
  return copy.values;
}

at::Tensor own_weight(const at::Tensor& weight, at::ScalarType dtype) {
  if (weight.scalar_type() == dtype) return weight;
  if (dtype == at::kBFloat16 && weight.scalar_type() == at::kFloat) {
    const std::lock_guard lock(owners().mutex);
    const auto found = owners().by_weight.find(weight.unsafeGetTensorImpl());
    if (found != owners().by_weight.end()) {
      const auto copy = found->second.copies->current(found->second.place);
      if (copy.defined()) return copy;
    }
  }
  return weight.to(dtype);
}

}  // namespace fovea::kernels
