#include "fovea/elastic/relay_plan.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "fovea/checkpoint/assembly.h"
#include "fovea/core/error.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::elastic {
namespace {

using checkpoint::Box;
using checkpoint::Manifest;
using checkpoint::TensorEntry;

// As a file of tensors names it, wherever they are.
std::string dtype_name(const at::Tensor& tensor) {
  return nn::to_entry("", at::empty({0}, tensor.scalar_type())).dtype;
}

int64_t element_bytes(const TensorEntry& tensor) {
  return static_cast<int64_t>(c10::elementSize(nn::dtype_of_safetensors(tensor.dtype)));
}

// The plan as it comes into being: one tensor of one receiver after the other.
class Planner {
 public:
  Planner(const Manifest& held, uint64_t chunk_bytes) : held_(held), chunk_bytes_(chunk_bytes) {}

  void add(const std::string& worker, const std::string& part, const std::string& name,
           const TensorEntry& wanted) {
    const auto* tensor = find(part, name);
    if (tensor != nullptr && tensor->shape != wanted.shape) {
      fail<CheckpointError>(
          "{} '{}': of shape [{}] with the members of the run, and [{}] with worker {}; expected "
          "workers with one recipe",
          part, name, fmt::join(tensor->shape, ", "), fmt::join(wanted.shape, ", "), worker);
    }
    const auto most = std::max<int64_t>(
        1, static_cast<int64_t>(chunk_bytes_) / element_bytes(tensor ? *tensor : wanted));
    for (const auto& slice : wanted.slices) {
      for (const auto& piece : checkpoint::pieces_of(checkpoint::box_of(slice), most)) {
        add_box({.from = "", .to = worker, .part = part, .name = name, .box = piece}, tensor);
      }
    }
  }

  RelayPlan take() { return std::move(plan_); }

 private:
  struct Candidate {
    std::string worker;
    Box box;
  };

  const TensorEntry* find(const std::string& part, const std::string& name) const {
    const auto tensors = held_.tensors.find(part);
    if (tensors == held_.tensors.end()) return nullptr;
    const auto tensor = tensors->second.find(name);
    return tensor == tensors->second.end() ? nullptr : &tensor->second;
  }

  // Who gives it, and how much of it: the receiver itself, else who has the most of it, of those
  // the one with the least to give.
  std::vector<Candidate> giver_of(const Transfer& wanted, const TensorEntry& tensor) const {
    std::vector<Candidate> best;
    std::tuple<bool, int64_t, int64_t> best_rank;
    for (const auto& slice : tensor.slices) {
      const auto both = checkpoint::common_box(wanted.box, checkpoint::box_of(slice));
      if (!both) continue;
      const auto load = load_.find(slice.file);
      const std::tuple rank = {slice.file == wanted.to, both->numel(),
                               load == load_.end() ? 0 : -load->second};
      if (!best.empty() && rank <= best_rank) continue;
      best = {{slice.file, *both}};
      best_rank = rank;
    }
    return best;
  }

  void add_box(Transfer wanted, const TensorEntry* tensor) {
    if (wanted.box.numel() == 0) return;
    const auto giver = tensor ? giver_of(wanted, *tensor) : std::vector<Candidate>();
    if (giver.empty()) {
      plan_.missing.push_back(std::move(wanted));
      return;
    }
    const auto& [worker, box] = giver.front();
    auto found = wanted;
    found.from = worker;
    found.box = box;
    if (worker != wanted.to) {
      const auto bytes = box.numel() * element_bytes(*tensor);
      load_[worker] += bytes;
      plan_.bytes += static_cast<uint64_t>(bytes);
    }
    plan_.transfers.push_back(std::move(found));
    for (auto& rest : checkpoint::around_hole(wanted.box, box)) {
      wanted.box = std::move(rest);
      add_box(wanted, tensor);
    }
  }

  const Manifest& held_;
  uint64_t chunk_bytes_;
  std::map<std::string, int64_t> load_;  // bytes to give, by worker
  RelayPlan plan_;
};

}  // namespace

const checkpoint::TensorMap& tensors_of(const checkpoint::State& state, std::string_view part) {
  return part == "model" ? state.model : part == "optimizer" ? state.optimizer : state.ema;
}

std::vector<checkpoint::HeldSlice> slices_of(const checkpoint::State& state,
                                             std::string_view part) {
  const auto parts = state.parts.find(std::string(part));
  const std::map<std::string, kernels::TensorPart> none;
  return checkpoint::held_slices(tensors_of(state, part),
                                 parts == state.parts.end() ? none : parts->second);
}

Manifest describe(const checkpoint::State& state, const std::string& worker, int64_t step) {
  Manifest manifest;
  manifest.step = step;
  manifest.scalars = state.scalars;
  manifest.files.push_back({.name = worker, .bytes = 0, .sha256 = ""});
  for (const auto part : checkpoint::kParts) {
    for (auto& held : slices_of(state, part)) {
      auto& entry = manifest.tensors[std::string(part)][held.name];
      entry.dtype = dtype_name(held.values);
      entry.shape = held.shape;
      entry.slices.push_back({worker, std::move(held.box.offset), std::move(held.box.size)});
      manifest.files.back().bytes += held.values.nbytes();
    }
  }
  return manifest;
}

RelayPlan plan_relay(const Manifest& held, const std::vector<WantedState>& wanted,
                     uint64_t chunk_bytes) {
  Planner planner(held, chunk_bytes);
  for (const auto& state : wanted) {
    for (const auto& [part, tensors] : state.manifest.tensors) {
      for (const auto& [name, tensor] : tensors) planner.add(state.worker, part, name, tensor);
    }
  }
  return planner.take();
}

}  // namespace fovea::elastic
