#include "fovea/elastic/relay.h"

#include <ATen/core/grad_mode.h>

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/elastic/new_state.h"
#include "fovea/elastic/peer_slices.h"
#include "fovea/elastic/relay_choice.h"

namespace fovea::elastic {
namespace {

using checkpoint::State;
using checkpoint::TensorMap;

TensorMap on_cpu(const TensorMap& tensors) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) result[name] = tensor.detach().cpu();
  return result;
}

std::unique_ptr<SliceServer> serve(const parallel::World& world, const Holding& held) {
  if (held.step < 0 || world.size() == 1) return nullptr;
  return std::make_unique<SliceServer>(held.state, world.address(),
                                       !world.launch().is_one_machine(), world.launch().secret);
}

// By rank.
std::vector<MemberState> exchange(parallel::World& world, const MemberState& own) {
  std::vector<MemberState> members;
  for (const auto& text :
       parallel::all_gather_text(world.all(), to_text(own), "what members hold")) {
    members.push_back(member_from(text, static_cast<int64_t>(members.size())));
  }
  return members;
}

checkpoint::Manifest manifest_of(const CommittedState& committed) {
  auto manifest = checkpoint::read_manifest(committed.folder);
  if (manifest.step != committed.step) {
    fail<CheckpointError>("{}: a checkpoint of step {}; expected that of step {}",
                          committed.folder.string(), manifest.step, committed.step);
  }
  return manifest;
}

// The transfers to one worker, by who gives.
std::map<std::string, std::vector<Transfer>> transfers_to(const std::string& worker,
                                                          const RelayPlan& plan) {
  std::map<std::string, std::vector<Transfer>> result;
  for (const auto& transfer : plan.transfers) {
    if (transfer.to == worker) result[transfer.from].push_back(transfer);
  }
  return result;
}

}  // namespace

Holding make_holding(const std::string& worker, int64_t step, State state) {
  state.model = on_cpu(state.model);
  state.optimizer = on_cpu(state.optimizer);
  state.ema = on_cpu(state.ema);
  return {.worker = worker, .step = step, .state = std::move(state)};
}

std::optional<Relaid> relay(parallel::World& world, const Holding& held, const State& wanted,
                            const CommittedState& committed, uint64_t chunk_bytes) {
  const at::NoGradGuard no_grad;
  const auto server = serve(world, held);
  MemberState own{.worker = held.worker,
                  .address = world.address(),
                  .port = server ? server->port() : 0,
                  .committed_step = committed.step,
                  .held = {},
                  .wanted = describe(wanted, held.worker, -1)};
  own.held.step = -1;
  if (held.step >= 0) own.held = describe(held.state, held.worker, held.step);
  const auto members = exchange(world, own);
  auto choice = choose_state(members, chunk_bytes);
  if (!choice) return {};

  NewState state(wanted, own.wanted);
  auto transfers = transfers_to(held.worker, choice->plan);
  state.place_own(transfers[held.worker], held.state);
  transfers.erase(held.worker);
  std::array<double, 2> bytes = {};  // from peers, from the checkpoint
  {
    Fetching fetching(state);
    for (const auto& member : members) {
      if (!transfers.contains(member.worker)) continue;
      fetching.start({.worker = member.worker,
                      .address = member.address,
                      .port = member.port,
                      .secret = world.launch().secret},
                     transfers.at(member.worker));
    }
    auto& missing = choice->plan.missing;
    std::erase_if(missing, [&](const Transfer& box) { return box.to != held.worker; });
    if (!missing.empty() || choice->scalars.is_null()) {
      const auto manifest = manifest_of(committed);
      bytes[1] = static_cast<double>(state.read_missing(committed.folder, manifest, missing));
      if (choice->scalars.is_null()) choice->scalars = manifest.scalars;
    }
    bytes[0] = static_cast<double>(fetching.wait(world));
  }
  // Nobody stops giving before all have what they want.
  parallel::sum_over_ranks(world.all(), bytes, "bytes of the state");
  Relaid relaid{.state = state.take(),
                .step = choice->step,
                .bytes_from_peers = static_cast<uint64_t>(bytes[0]),
                .bytes_from_checkpoint = static_cast<uint64_t>(bytes[1])};
  relaid.state.scalars = std::move(choice->scalars);
  return relaid;
}

}  // namespace fovea::elastic
