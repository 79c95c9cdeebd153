#include "fovea/elastic/new_state.h"

#include <ATen/core/grad_mode.h>

#include <optional>

#include "fovea/checkpoint/tensor_files.h"
#include "fovea/core/error.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::elastic {
namespace {

using checkpoint::Assembly;
using checkpoint::Box;
using checkpoint::Manifest;
using checkpoint::State;
using std::chrono::milliseconds;
using RelayClock = std::chrono::steady_clock;

constexpr std::chrono::hours kNoEnd{24};  // whether a peer is there, the world knows

}  // namespace

NewState::NewState(const State& wanted, const Manifest& described)
    : wanted_(wanted), described_(described) {
  for (const auto& [part, tensors] : described.tensors) {
    const auto parts = wanted.parts.find(part);
    for (const auto& [name, entry] : tensors) {
      const bool is_part = parts != wanted.parts.end() && parts->second.contains(name);
      const auto wants =
          is_part ? std::optional(checkpoint::WantedPart{
                        parts->second.at(name), tensors_of(wanted, part).at(name).sizes().vec()})
                  : std::nullopt;
      targets_.emplace(std::pair(part, name), Assembly(entry, wants ? &*wants : nullptr));
    }
  }
}

State NewState::take() {
  State state;
  state.parts = wanted_.parts;
  state.source = "the state of the members";
  for (const auto& [part, to] :
       {std::pair("model", &state.model), std::pair("optimizer", &state.optimizer),
        std::pair("ema", &state.ema)}) {
    for (const auto& [name, own] : tensors_of(wanted_, part)) {
      const auto found = targets_.find({part, name});
      (*to)[name] = found != targets_.end() ? found->second.take() : own.detach().cpu().clone();
    }
  }
  return state;
}

void NewState::place_own(const std::vector<Transfer>& own, const State& held) {
  const HeldSlices slices(held);
  for (const auto& [from, to, part, name, box] : own) {
    target(part, name).place(box, slices.find({part, name, box}));
  }
}

uint64_t NewState::read_missing(const std::filesystem::path& folder, const Manifest& manifest,
                                const std::vector<Transfer>& missing) {
  std::map<std::string, std::map<std::string, std::vector<Box>>> boxes;  // by part, by name
  for (const auto& box : missing) boxes[box.part][box.name].push_back(box.box);
  uint64_t bytes = 0;
  for (const auto& [part, of_part] : boxes) {
    std::map<std::string, int64_t> still;  // elements to come
    for (const auto& [name, wanted] : of_part) {
      for (const auto& box : wanted) still[name] += box.numel();
    }
    // Each calls body(box) with what of a slice is missing.
    const auto each_missing = [&wanted = of_part](const std::string& name, const Box& slice,
                                                  const auto& body) {
      const auto found = wanted.find(name);
      if (found == wanted.end()) return;
      for (const auto& box : found->second) {
        if (const auto both = checkpoint::common_box(box, slice)) body(*both);
      }
    };
    bytes += checkpoint::read_slices(
        folder, part, manifest,
        {.wants =
             [&](const std::string& name, const Box& slice) {
               bool is_wanted = false;
               each_missing(name, slice, [&](const Box&) { is_wanted = true; });
               return is_wanted;
             },
         .take =
             [&, &of = part](const std::string& name, const Box& slice, const at::Tensor& values) {
               each_missing(name, slice, [&](const Box& box) {
                 target(of, name).place(box, checkpoint::part_of_box(values, slice, box));
                 still[name] -= box.numel();
               });
             }});
    for (const auto& [name, count] : still) {
      if (count == 0) continue;
      fail<CheckpointError>(
          "{}: {} '{}' is not in it, or of another shape; expected a checkpoint of this run",
          folder.string(), part, name);
    }
  }
  return bytes;
}

Fetching::~Fetching() {
  end_->fire("state is fetched no more");
  for (auto& thread : threads_) thread.join();
}

void Fetching::start(const PeerPlace& peer, const std::vector<Transfer>& transfers) {
  std::vector<PeerSlices::Wanted> slices;
  for (const auto& transfer : transfers) {
    const auto& entry = state_.described().tensors.at(transfer.part).at(transfer.name);
    slices.push_back({.slice = {transfer.part, transfer.name, transfer.box},
                      .dtype = nn::dtype_of_safetensors(entry.dtype)});
    state_.target(transfer.part, transfer.name).make();
  }
  {
    const std::lock_guard lock(mutex_);
    num_running_ += 1;
  }
  threads_.emplace_back([this, peer, slices = std::move(slices)] { run(peer, slices); });
}

uint64_t Fetching::wait(parallel::World& world) {
  std::unique_lock lock(mutex_);
  while (num_running_ > 0 && !fault_) {
    const auto seen = num_slices_;
    lock.unlock();
    world.wait_until("state from other members", [&](milliseconds patience) {
      std::unique_lock own(mutex_);
      return changed_.wait_for(own, patience,
                               [&] { return num_slices_ != seen || num_running_ == 0 || fault_; });
    });
    lock.lock();
  }
  if (fault_) std::rethrow_exception(fault_);
  return bytes_;
}

void Fetching::run(const PeerPlace& peer, const std::vector<PeerSlices::Wanted>& slices) {
  try {
    const at::NoGradGuard no_grad;
    PeerSlices source(peer, slices, RelayClock::now() + kNoEnd, end_);
    for (const auto& [slice, dtype] : slices) {
      const auto values = source.read(slice.key());
      state_.target(slice.part, slice.name).place(slice.box, values);
      const std::lock_guard lock(mutex_);
      bytes_ += values.nbytes();
      num_slices_ += 1;
      changed_.notify_all();
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (!fault_) fault_ = std::make_exception_ptr(parallel::RankError(error.what()));
  }
  const std::lock_guard lock(mutex_);
  num_running_ -= 1;
  changed_.notify_all();
}

}  // namespace fovea::elastic
