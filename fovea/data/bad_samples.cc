#include "fovea/data/bad_samples.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/log.h"

namespace fovea::data {
namespace {

constexpr std::array<const char*, 3> kPolicyNames = {"error", "skip", "substitute"};

RandomStream bad_sample_stream(const std::string& name, uint64_t seed, int64_t epoch, int64_t index,
                               int64_t attempt) {
  const uint64_t place = static_cast<uint64_t>(index) * static_cast<uint64_t>(kSubstituteTries) +
                         static_cast<uint64_t>(attempt);
  return RandomStream(philox_key(seed, name), place, static_cast<uint32_t>(epoch));
}

int64_t samples_of_budget(double budget, int64_t size) {
  const double samples = budget < 1 ? std::ceil(budget * static_cast<double>(size)) : budget;
  constexpr auto kMost = static_cast<double>(std::numeric_limits<int64_t>::max() / 2);
  return static_cast<int64_t>(std::min(samples, kMost));
}

}  // namespace

BadSamplePolicy bad_sample_policy(const std::string& name) {
  for (size_t i = 0; i < kPolicyNames.size(); ++i) {
    if (name == kPolicyNames[i]) return static_cast<BadSamplePolicy>(i);
  }
  fail<ConfigError>("policy '{}' for bad samples; expected error, skip or substitute", name);
}

const char* name_of(BadSamplePolicy policy) { return kPolicyNames[static_cast<size_t>(policy)]; }

void BadSamplesConfig::validate(ConfigIssues& issues) const {
  if (!budget) return;
  if (policy == "error") {
    issues.add("budget", {"policy"},
               fmt::format("{} has no effect with policy: error, where the first bad sample ends "
                           "the run; choose policy: skip or substitute, or leave budget out",
                           *budget));
  }
  if (*budget >= 1 && *budget != std::floor(*budget)) {
    issues.add("budget", fmt::format("{} samples; expected a whole number from 1 on, or a share "
                                     "of the data set below 1",
                                     *budget));
  }
}

BadSampleOptions bad_sample_options(const BadSamplesConfig& config, bool is_training) {
  BadSampleOptions options;
  options.policy = bad_sample_policy(config.policy);
  if (!is_training && options.policy == BadSamplePolicy::kSubstitute) {
    options.policy = BadSamplePolicy::kSkip;
  }
  options.budget = config.budget.value_or(options.budget);
  return options;
}

int64_t substitute_sample(uint64_t seed, int64_t epoch, int64_t index, int64_t attempt,
                          int64_t first, int64_t size) {
  FOVEA_CHECK(size > 1 && index >= first && index - first < size,
              "a substitute for sample {} of {} from {} on", index, size, first);
  auto random = bad_sample_stream("bad_samples.substitute", seed, epoch, index, attempt);
  const auto others = static_cast<uint64_t>(size - 1);
  const uint64_t word = uint64_t{random.next_word()} << 32;
  const auto other = static_cast<int64_t>((word | random.next_word()) % others);
  return first + other + (other >= index - first ? 1 : 0);
}

RandomStream substitute_stream(uint64_t seed, int64_t epoch, int64_t index, int64_t attempt,
                               int64_t repeat) {
  const std::string name = fmt::format("augment.substitute.{}", repeat);
  return bad_sample_stream(name, seed, epoch, index, attempt);
}

BadSampleLog::BadSampleLog(const BadSampleOptions& options, int64_t size)
    : options_(options), size_(size), budget_(samples_of_budget(options.budget, size)) {
  const double budget = options.budget;
  if (!(budget > 0) || (budget >= 1 && budget != std::floor(budget))) {
    fail<ConfigError>(
        "a budget of {} bad samples; expected a share above 0 and below 1, or a whole number from "
        "1 on",
        budget);
  }
}

void BadSampleLog::add(std::vector<BadSampleEvent> events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const BadSampleEvent& a, const BadSampleEvent& b) { return a.row < b.row; });
  for (const BadSampleEvent& event : events) add_one(event);
}

void BadSampleLog::add_one(const BadSampleEvent& event) {
  const auto [place, is_new] = places_.try_emplace(event.index, samples_.size());
  if (!is_new) {
    samples_[place->second].times += 1;
    return;
  }
  samples_.push_back({event.index, event.name, event.reason, 1});
  const auto count = static_cast<int64_t>(samples_.size());
  if (count > budget_) {
    fail<DataError>(
        "{} of {} samples cannot be read, more than the {} that the budget of {} for bad samples "
        "allows; the last is {}. Mend or remove them (fovea data check names all), or raise "
        "data.bad_samples.budget",
        count, size_, budget_, options_.budget, event.reason);
  }
  log_warning(fmt::format("bad sample {} of at most {}: {}; {}", count, budget_, event.reason,
                          options_.policy == BadSamplePolicy::kSkip
                              ? "it is left out"
                              : "another sample takes its place"));
}

void BadSampleLog::restore(std::vector<BadSample> samples) {
  samples_ = std::move(samples);
  places_.clear();
  for (size_t i = 0; i < samples_.size(); ++i) places_[samples_[i].index] = i;
}

}  // namespace fovea::data
