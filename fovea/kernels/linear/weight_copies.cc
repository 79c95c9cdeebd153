#include "fovea/kernels/linear/weight_copies.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/int8_product.h"
#include "fovea/kernels/cpu/panel_product.h"
#include "fovea/kernels/cpu/strip_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/int8_products.h"
#include "fovea/kernels/recorded_pass.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {
namespace {

std::atomic<int64_t> num_arrangements = 0;
std::atomic<int64_t> num_watched = 0;

// weight: [N, K], contiguous.
void pack_strips_of(const at::Tensor& weight, cpu::AlignedBuffer<float>& strips) {
  const int64_t N = weight.size(0), K = weight.size(1);
  cpu::pack_strips({weight.const_data_ptr<float>(), K, /*is_transposed=*/true}, K, N,
                   strips.reserve(cpu::packed_strips_size(K, N)));
}

}  // namespace

int64_t weight_arrangement() { return num_arrangements; }
bool are_weights_watched() { return num_watched > 0; }

// Of all copies of an owner; there once the first one is asked for.
struct WeightCopies::Buffer {
  explicit Buffer(int64_t size) : num_elements(size) {}

  std::mutex mutex;  // copies are made one by one: backward passes have threads of their own
  int64_t num_elements;
  at::Tensor flat;
  bool keeps_packed = false;
};

struct WeightCopies::Copy final : c10::BackendMeta {
  Copy(const Place& place, std::shared_ptr<Buffer> all)
      : begin(place.begin), data(place.weight.const_data_ptr()), buffer(std::move(all)) {}

  ~Copy() override { watch({}); }

  // What libtorch hangs on a tensor that it makes of the weight.
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return {};
  }

  bool is_current(const at::Tensor& weight) const { return is_of(weight, version); }
  bool is_of(const at::Tensor& weight, const std::atomic<int64_t>& copied) const {
    return copied.load(std::memory_order_acquire) == weight._version() &&
           weight.const_data_ptr() == data;
  }
  // Calls make() unless what it made last, in version `made` of the weight, is as the weight is.
  // False: the weight has moved.
  template <class Make>
  bool bring_up_to_date(const at::Tensor& weight, std::atomic<int64_t>& made, const Make& make);
  // Undefined where the weight has left the flat buffer.
  at::Tensor of(const at::Tensor& weight);
  void make(const at::Tensor& weight);
  void watch(Watcher next) {
    num_watched += (next ? 1 : 0) - (watcher ? 1 : 0);
    watcher = std::move(next);
  }
  // Null where the weight has moved.
  const float* strips_of(const at::Tensor& weight);
  const float* rounded_strips_of(const at::Tensor& weight);
  const uint16_t* panels_of(const at::Tensor& weight);
  const cpu::Int8Weight* int8_of(const at::Tensor& weight);

  int64_t begin;
  const void* data;                  // of the weight, within its flat buffer
  std::atomic<int64_t> version{-1};  // of the weight when the copy was made; -1: never
  at::Tensor values;                 // view of the buffer, shaped as the weight; set once
  std::atomic<int64_t> strips_version{-1};
  cpu::AlignedBuffer<float> strips;
  std::atomic<int64_t> rounded_strips_version{-1};
  cpu::AlignedBuffer<float> rounded_strips;
  std::atomic<int64_t> panels_version{-1};
  cpu::AlignedBuffer<uint16_t> panels;
  bool uses_int8 = false;
  std::atomic<int64_t> int8_version{-1};
  std::optional<cpu::Int8Weight> int8;
  std::optional<cpu::Int8Row> int8_rows;  // of its first factors
  Watcher watcher;
  std::shared_ptr<Buffer> buffer;
};

template <class Make>
bool WeightCopies::Copy::bring_up_to_date(const at::Tensor& weight, std::atomic<int64_t>& made,
                                          const Make& make) {
  if (is_of(weight, made)) return true;
  if (weight.const_data_ptr() != data) return false;
  const std::lock_guard lock(buffer->mutex);
  if (is_of(weight, made)) return true;
  const RecordingPause pause;
  make();
  made.store(weight._version(), std::memory_order_release);
  return true;
}

at::Tensor WeightCopies::Copy::of(const at::Tensor& weight) {
  return bring_up_to_date(weight, version, [&] { make(weight); }) ? values : at::Tensor();
}

void WeightCopies::Copy::make(const at::Tensor& weight) {
  const c10::InferenceMode no_inference(false);  // the copies are written to outside of it, too
  const at::NoGradGuard no_grad;
  auto& flat = buffer->flat;
  if (!flat.defined()) {
    const auto options = weight.options().dtype(at::kBFloat16).requires_grad(false);
    flat = at::empty({buffer->num_elements}, options);
  }
  if (!values.defined()) values = flat.narrow(0, begin, weight.numel()).view(weight.sizes());
  const WorkScope work("fovea::weight_copy", 0, bytes_of({weight, values}));
  values.copy_(weight);
}

const float* WeightCopies::Copy::strips_of(const at::Tensor& weight) {
  const auto pack = [&] {
    const WorkScope work("fovea::weight_strips", 0, 2 * bytes_of({weight}));
    pack_strips_of(weight, strips);
  };
  return bring_up_to_date(weight, strips_version, pack) ? strips.data() : nullptr;
}

const float* WeightCopies::Copy::rounded_strips_of(const at::Tensor& weight) {
  const auto pack = [&] {
    const at::NoGradGuard no_grad;
    const WorkScope work("fovea::weight_rounded_strips", 0, 2 * bytes_of({weight}));
    pack_strips_of(weight.to(at::kBFloat16).to(at::kFloat), rounded_strips);
  };
  return bring_up_to_date(weight, rounded_strips_version, pack) ? rounded_strips.data() : nullptr;
}

const uint16_t* WeightCopies::Copy::panels_of(const at::Tensor& weight) {
  const auto pack = [&] {
    const at::NoGradGuard no_grad;
    const int64_t N = weight.size(0), K = weight.size(1);
    const WorkScope work("fovea::weight_panels", 0, 2 * bytes_of({weight}));
    const auto rounded = weight.to(at::kBFloat16);
    cpu::pack_panels({bits_of(rounded), K, /*is_transposed=*/true}, K, N,
                     panels.reserve(cpu::packed_panels_size(K, N)));
  };
  return bring_up_to_date(weight, panels_version, pack) ? panels.data() : nullptr;
}

const cpu::Int8Weight* WeightCopies::Copy::int8_of(const at::Tensor& weight) {
  const auto pack = [&] {
    const WorkScope work("fovea::weight_int8", 0, bytes_of({weight}) + weight.numel());
    int8 = cpu::pack_int8_weight(int8_form(), weight.const_data_ptr<float>(), weight.size(0),
                                 weight.size(1));
    int8->rows = int8_rows;
  };
  return bring_up_to_date(weight, int8_version, pack) ? &*int8 : nullptr;
}

WeightCopies::WeightCopies(const std::vector<Place>& places, int64_t num_elements)
    : buffer_(std::make_shared<Buffer>(num_elements)) {
  for (const auto& place : places) {
    FOVEA_CHECK(place.weight.scalar_type() == at::kFloat && place.weight.is_contiguous() &&
                    place.begin + place.weight.numel() <= num_elements,
                "WeightCopies: a weight is {} at {} of {}; expected float32, contiguous, within",
                place.weight.toString(), place.begin, num_elements);
  }
  for (const auto& place : places) {
    copies_.push_back({place.weight, c10::make_intrusive<Copy>(place, buffer_)});
    // A later owner of the same weight has the last word.
    place.weight.unsafeGetTensorImpl()->set_backend_meta(copies_.back().copy);
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
  auto copies = std::make_unique<WeightCopies>(places, end);
  copies->buffer_->keeps_packed = true;
  return copies;
}

WeightCopies::~WeightCopies() {
  for (const auto& [weight, copy] : copies_) {
    auto& impl = *weight.unsafeGetTensorImpl();
    if (impl.get_backend_meta() == copy.get()) impl.set_backend_meta({});
  }
}

WeightCopies::Copy& WeightCopies::own_copy(const at::Tensor& weight) const {
  auto* copy = hanging_on(weight);
  FOVEA_CHECK(copy && copy->buffer == buffer_, "a weight {}; expected one that is copied here",
              weight.toString());
  return *copy;
}

void WeightCopies::use_int8(const at::Tensor& weight, bool uses) {
  auto& copy = own_copy(weight);
  FOVEA_CHECK(weight.dim() == 2 && weight.size(1) <= cpu::kMostInt8Depth,
              "8-bit integers of a weight of {} dims; expected 2, and a depth of {} at most",
              weight.dim(), cpu::kMostInt8Depth);
  copy.uses_int8 = uses;
  ++num_arrangements;
  if (uses) copy.int8_of(weight);  // here, and not in the first pass
}

void WeightCopies::hold_rows(const at::Tensor& weight, const std::optional<Int8Range>& range) {
  auto& copy = own_copy(weight);
  copy.int8_rows = range ? std::optional(cpu::int8_row(*range)) : std::nullopt;
  if (copy.int8) copy.int8->rows = copy.int8_rows;
  ++num_arrangements;
}

void WeightCopies::watch(const at::Tensor& weight, Watcher watcher) {
  own_copy(weight).watch(std::move(watcher));
  ++num_arrangements;
}

at::Tensor WeightCopies::flat() const {
  const std::lock_guard lock(buffer_->mutex);
  return buffer_->flat;
}

std::vector<bool> WeightCopies::are_current() const {
  std::vector<bool> result;
  for (const auto& [weight, copy] : copies_) result.push_back(copy->is_current(weight));
  return result;
}

void WeightCopies::make_current() {
  for (const auto& [weight, copy] : copies_) {
    if (copy->version >= 0) copy->of(weight);
  }
}

void WeightCopies::stay_current(const std::vector<bool>& were_current) {
  for (size_t i = 0; i < copies_.size(); ++i) {
    if (were_current.at(i)) copies_[i].copy->version = copies_[i].weight._version();
  }
}

namespace {

// Whether x [N, K] is a convolution's weight [N, ...] as its product takes it, seen as a view.
bool is_flattened(const at::Tensor& x) {
  if (x.dim() != 2 || !x.is_view()) return false;
  const auto& base = x._base();
  return base.dim() > 2 && base.size(0) == x.size(0) && base.numel() == x.numel() &&
         x.is_contiguous() && x.storage_offset() == base.storage_offset();
}

}  // namespace

// Others hang things of theirs on tensors, too (elementwise/reduce.h).
WeightCopies::Copy* WeightCopies::hanging_on(const at::Tensor& weight) {
  const auto& owner = is_flattened(weight) ? weight._base() : weight;
  if (auto* recorder = pass_recorder()) recorder->depend_on(at::Tensor(owner));
  return dynamic_cast<Copy*>(owner.unsafeGetTensorImpl()->get_backend_meta());
}

WeightCopies::Copy* WeightCopies::with_packed(const at::Tensor& weight) {
  auto* kept = hanging_on(weight);
  return kept && kept->buffer->keeps_packed && !weight.is_inference() ? kept : nullptr;
}

const float* kept_strips(const at::Tensor& weight) {
  auto* kept = WeightCopies::with_packed(weight);
  return kept ? kept->strips_of(weight) : nullptr;
}

const float* kept_rounded_strips(const at::Tensor& weight) {
  auto* kept = WeightCopies::with_packed(weight);
  return kept ? kept->rounded_strips_of(weight) : nullptr;
}

const uint16_t* kept_panels(const at::Tensor& weight) {
  auto* kept = WeightCopies::with_packed(weight);
  return kept ? kept->panels_of(weight) : nullptr;
}

const cpu::Int8Weight* kept_int8(const at::Tensor& weight) {
  auto* kept = WeightCopies::hanging_on(weight);
  if (!kept || !kept->uses_int8 || weight.is_inference()) return nullptr;
  return kept->int8_of(weight);
}

void tell_watcher(const at::Tensor& weight, const at::Tensor& rows) {
  const auto* kept = WeightCopies::hanging_on(weight);
  if (!kept || !kept->watcher) return;
  if (auto* recorder = pass_recorder()) recorder->refuse("somebody watches a weight");
  kept->watcher(rows);
}

bool has_watcher(const at::Tensor& weight) {
  const auto* kept = WeightCopies::hanging_on(weight);
  return kept && kept->watcher;
}

at::Tensor own_weight(const at::Tensor& weight, at::ScalarType dtype) {
  if (weight.scalar_type() == dtype) return weight;
  if (dtype == at::kBFloat16) {
    if (auto* kept = WeightCopies::hanging_on(weight)) {
      const auto copy = kept->of(weight);
      if (copy.defined()) return copy.sizes() == weight.sizes() ? copy : copy.view(weight.sizes());
    }
  }
  return weight.to(dtype);
}

}  // namespace fovea::kernels
