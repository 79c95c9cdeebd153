#include "fovea/elastic/agreement.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::elastic {
namespace {

using train::PreparedStep;
using train::StepStage;

// Numbers as the bits that they are: what is not finite has no other name in JSON.
nlohmann::json bits_of(const at::Tensor& numbers) {
  nlohmann::json list = nlohmann::json::array();
  const auto wide = numbers.cpu().to(at::kDouble);
  for (int64_t i = 0; i < wide.numel(); ++i) {
    list.push_back(std::bit_cast<int64_t>(wide[i].item<double>()));
  }
  return list;
}

at::Tensor from_bits(const JsonValue& list) {
  std::vector<double> numbers;
  for (const auto bits : list.integers()) numbers.push_back(std::bit_cast<double>(bits));
  return at::tensor(numbers, at::kDouble);
}

nlohmann::json to_json(const PreparedStep& step) {
  nlohmann::json text = {{"step", step.step},
                         {"position", step.position},
                         {"weight", std::bit_cast<int64_t>(step.sums.weight)},
                         {"names", step.sums.names},
                         {"numbers", bits_of(step.sums.numbers)},
                         {"stop_requests", step.notes.stop_requests},
                         {"bad_samples", step.notes.bad_samples},
                         {"changes", step.notes.changes},
                         {"clip", bits_of(step.clip)}};
  if (!step.sums.halves.defined()) return text;
  text["halves"] = bits_of(step.sums.halves.flatten());
  text["first_weight"] = std::bit_cast<int64_t>(step.sums.first_weight);
  return text;
}

PreparedStep prepared_from(const JsonValue& value) {
  PreparedStep step{.step = value.at("step").integer(),
                    .position = value.at("position").integer(),
                    .sums = {.weight = std::bit_cast<double>(value.at("weight").integer()),
                             .names = value.at("names").texts(),
                             .numbers = from_bits(value.at("numbers"))},
                    .notes = {.stop_requests = value.at("stop_requests").integer(),
                              .bad_samples = value.at("bad_samples").integer(),
                              .changes = value.at("changes").integer()},
                    .clip = from_bits(value.at("clip"))};
  if (const auto halves = value.find("halves")) {
    const auto numbers = from_bits(*halves);
    if (numbers.numel() % 3 != 0) halves->refuse("three numbers of each tile");
    step.sums.halves = numbers.view({-1, 3});
    step.sums.first_weight = std::bit_cast<double>(value.at("first_weight").integer());
  }
  return step;
}

bool has_numbers_of(const StepStand& stand, int64_t step) {
  return stand.numbers && stand.numbers->step == step;
}

}  // namespace

StepStand stand_of(const train::StepProgress& progress, const train::StepParts& parts,
                   int64_t state_step) {
  if (progress.step < 0) return {.done = state_step, .has_sums = false, .numbers = {}};
  StepStand stand{.done = progress.step, .has_sums = false, .numbers = {}};
  switch (progress.stage) {
    case StepStage::kBegun:
      break;
    case StepStage::kSummed:
      stand.has_sums = train::can_finish_alone(parts);
      break;
    case StepStage::kPrepared:
      // Clipping is behind it; an update of parts may still need the others.
      stand.has_sums = train::can_finish_alone(parts);
      stand.numbers = progress.prepared;
      break;
    case StepStage::kApplying:
      stand.done = -1;
      break;
    case StepStage::kApplied:
      stand.done += 1;
      stand.numbers = progress.prepared;
      break;
  }
  return stand;
}

StepStand stand_of(const train::TrainingRun& run) {
  const auto& place = run.place;
  return place.state ? stand_of(*place.steps, place.state->step_parts(), run.step) : StepStand();
}

std::string to_text(const StepStand& stand) {
  nlohmann::json text = {{"done", stand.done}, {"has_sums", stand.has_sums}};
  if (stand.numbers) text["numbers"] = to_json(*stand.numbers);
  return json_text(text);
}

StepStand stand_from(const std::string& text) {
  const auto object = parse_json(text, "where a member stands");
  const JsonValue value(object, "where a member stands");
  StepStand stand{.done = value.at("done").integer(),
                  .has_sums = value.at("has_sums").boolean(),
                  .numbers = {}};
  if (const auto numbers = value.find("numbers")) stand.numbers = prepared_from(*numbers);
  return stand;
}

StepAgreement agree(const std::vector<StepStand>& stands) {
  int64_t most = -1;
  for (const auto& stand : stands) most = std::max(most, stand.done);
  StepAgreement agreement{
      .done = most, .choices = std::vector(stands.size(), StepChoice::kDiscard), .numbers = {}};
  if (most < 0) return agreement;
  const auto all_of_holders = [&](const auto& is_so) {
    return std::all_of(stands.begin(), stands.end(),
                       [&](const StepStand& stand) { return stand.done < 0 || is_so(stand); });
  };
  // Numbers of the step that is ahead of all: it is finished where all can.
  const auto ahead = std::find_if(stands.begin(), stands.end(), [&](const StepStand& stand) {
    return has_numbers_of(stand, most);
  });
  const bool is_finished = ahead != stands.end() && all_of_holders([&](const StepStand& stand) {
                             return stand.done == most && stand.has_sums;
                           });
  if (is_finished) agreement.done = most + 1;
  for (const auto& stand : stands) {
    if (has_numbers_of(stand, agreement.done - 1)) {
      agreement.numbers = stand.numbers;
      break;
    }
  }
  for (size_t i = 0; i < stands.size(); ++i) {
    const auto& stand = stands[i];
    if (stand.done == agreement.done) {
      agreement.choices[i] = StepChoice::kKeep;
    } else if (stand.done >= 0 && stand.done == agreement.done - 1 && stand.has_sums &&
               agreement.numbers) {
      agreement.choices[i] = StepChoice::kFinish;
    }
  }
  return agreement;
}

StepAgreement agree_on_step(parallel::World& world, const StepStand& own) {
  std::vector<StepStand> stands;
  for (const auto& text :
       parallel::all_gather_text(world.all(), to_text(own), "the steps of the members")) {
    stands.push_back(stand_from(text));
  }
  return agree(stands);
}

std::optional<train::StepOutcome> carry_out(const StepAgreement& agreement, StepChoice own,
                                            train::MeshState& state, double lr) {
  if (own != StepChoice::kFinish) return {};
  state.leave_ranks();
  return train::finish_step(state.step_parts(), *agreement.numbers, lr);
}

}  // namespace fovea::elastic
