// What happens where a sample cannot be read: a damaged file, one that vanished, a mask of another
// size, a disk that fails. The other rows of a batch hold what they would hold anyway, so a run
// with bad samples does not depend on threads, ranks or queue sizes either.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/core/philox.h"

namespace fovea::data {

enum class BadSamplePolicy {
  kError,       // the batch that the sample belongs to cannot be had
  kSkip,        // its row counts for nothing: weight 0, index -1, zeros
  kSubstitute,  // another sample of its set is read in its place
};

// "error", "skip", "substitute"; throws ConfigError for another name.
BadSamplePolicy bad_sample_policy(const std::string& name);
const char* name_of(BadSamplePolicy policy);

struct BadSampleOptions {
  BadSamplePolicy policy = BadSamplePolicy::kError;
  double budget = 0.01;  // below 1: share of the data set; from 1 on: samples
};

// The `bad_samples:` of a recipe.
struct BadSamplesConfig {
  std::string policy = "error";
  std::optional<double> budget = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("policy", self.policy,
            "a sample that cannot be read: error, the run ends; skip, it counts for nothing; "
            "substitute, another sample of its set takes its place (data.val skips it then)",
            {.choices = {"error", "skip", "substitute"}});
    v.field("budget", self.budget,
            "different bad samples of a data set that are put up with; below 1: share of the set, "
            "rounded up; default: 0.01",
            {.min = 0, .exclusive_min = true, .unit = "samples"});
  }
  void validate(ConfigIssues& issues) const;
};

// is_training: an evaluation skips where training substitutes, since a sample that stands for
// another would count twice.
BadSampleOptions bad_sample_options(const BadSamplesConfig& config, bool is_training);

// A sample that a row of a batch was to hold.
struct BadSampleEvent {
  int64_t row = 0;
  int64_t index = 0;   // in the data set
  std::string name;    // Dataset::describe
  std::string reason;  // the message, which names the file
};

// Samples drawn for the place of a bad one before its batch is given up.
constexpr int64_t kSubstituteTries = 16;

// The sample read in the place of sample `index`: one of the other samples of its set, [first,
// first + size), and the key of its augmentation, so that it does not look as where it is due
// itself; nor does one repeat of repeated augmentation look as another. Functions of their
// arguments. size > 1; 0 <= attempt < kSubstituteTries.
int64_t substitute_sample(uint64_t seed, int64_t epoch, int64_t index, int64_t attempt,
                          int64_t first, int64_t size);
RandomStream substitute_stream(uint64_t seed, int64_t epoch, int64_t index, int64_t attempt,
                               int64_t repeat = 0);

// What is known of a bad sample.
struct BadSample {
  int64_t index = 0;
  std::string name;
  std::string reason;  // of the first time
  int64_t times = 0;   // that it was due
};

// The bad samples of one data set in a run. Not thread-safe: the loader adds those of a batch when
// it hands the batch out, so that what is logged, counted and refused does not depend on how far
// threads have read ahead.
class BadSampleLog {
 public:
  // size: of the data set.
  BadSampleLog(const BadSampleOptions& options, int64_t size);

  // Events of one batch, in any order of rows; those of a row in the order of its attempts. Warns
  // of each sample once. Throws DataError where more samples are bad than the budget allows: how
  // many, and the last.
  void add(std::vector<BadSampleEvent> events);
  // In the order in which they were met.
  const std::vector<BadSample>& list() const { return samples_; }
  // Goes on from the list of an earlier process of the same run, without warning again.
  void restore(std::vector<BadSample> samples);
  const BadSampleOptions& options() const { return options_; }
  // Samples that may be bad.
  int64_t budget() const { return budget_; }

 private:
  void add_one(const BadSampleEvent& event);

  BadSampleOptions options_;
  int64_t size_;
  int64_t budget_;
  std::vector<BadSample> samples_;
  std::unordered_map<int64_t, size_t> places_;  // in samples_, by index
};

}  // namespace fovea::data
