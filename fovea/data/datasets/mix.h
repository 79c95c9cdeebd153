// Several data sets as one: other roots, channels, sizes, shares. See Note [Mixing sets] in
// sample_order.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/datasets/format.h"
#include "fovea/data/order/sample_order.h"
#include "fovea/data/tiles/tiling.h"

namespace fovea::data {

struct MixSetConfig {
  std::string name = {};
  DatasetConfig source = {};
  double weight = 1.0;
  double start = 0.0;
  double end = 1.0;
  std::vector<std::string> variables = {};
  bool single_channel = false;
  std::optional<TilingConfig> tiling = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("name", self.name, "what reports and messages call the set", {.required = true});
    v.field("source", self.source, "the data set", {.required = true});
    v.field("weight", self.weight, "its part of the batches, for mix: weights",
            {.min = 0, .exclusive_min = true});
    v.field("start", self.start, "share of its samples before the first that is used",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("end", self.end, "share of its samples before the first that is not used any more",
            {.min = 0, .max = 1, .exclusive_min = true});
    v.field("variables", self.variables,
            "names of its channels, in order; their number is the channels of its batches");
    v.field("single_channel", self.single_channel,
            "each variable is a set of its own, whose batches have one channel");
    v.field("tiling", self.tiling, "how its samples are cut; default: data.tiling");
  }
  void validate(ConfigIssues& issues) const;
};

struct MixConfig {
  static constexpr std::string_view kTag = "format";
  static constexpr std::string_view kName = "mix";
  std::vector<MixSetConfig> sets = {};
  std::vector<AnyTransformConfig> transforms = {};
  std::string dataset_group_list = {};
  std::map<std::string, int64_t> batches_per_rank_epoch = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("sets", self.sets, "the data sets", {.required = true});
    v.field("transforms", self.transforms,
            "what is done to the samples of sets whose source lists no transforms");
    v.field("dataset_group_list", self.dataset_group_list,
            "for mix: rank_groups: processes of each set, \"3:5\"; it depends on the number of "
            "processes (fovea data balance makes it)");
    v.field("batches_per_rank_epoch", self.batches_per_rank_epoch,
            "for mix: rank_groups: batches of each set, by name; an epoch has the largest number",
            {.unit = "batches"});
  }
  void validate(ConfigIssues& issues) const;
};

struct MixSet {
  std::string name;
  std::shared_ptr<const Dataset> dataset;
  std::vector<std::string> variables = {};
  double weight = 1.0;
  std::vector<AnyTransformConfig> transforms = {};
};

// The samples of all sets, one set after the other. A sample's form and masks must be the same in
// each; class names too, where they are given. num_classes is the largest.
class MixDataset : public Dataset {
 public:
  // Throws ConfigError: no sets, sets that differ in what must agree.
  explicit MixDataset(std::vector<MixSet> sets);

  const std::vector<MixSet>& sets() const { return sets_; }
  int64_t set_of(int64_t index) const;
  // How a SampleOrder mixes these; rank groups are left to the caller.
  MixOptions options(MixMode mode) const;

  int64_t size() const override { return ends_.back(); }
  SampleForm form() const override { return sets_[0].dataset->form(); }
  bool has_masks() const override { return sets_[0].dataset->has_masks(); }
  void read(int64_t index, Sample& sample) const override;
  const std::vector<std::string>& class_names() const override;
  int64_t num_classes() const override;
  VolumeSize size_of(int64_t index) const override;
  int64_t channels_of(int64_t index) const override;
  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override;
  // "ct1: scans/a.nii"
  std::string describe(int64_t index) const override;

 private:
  const Dataset& locate(int64_t& index) const;

  std::vector<MixSet> sets_;
  std::vector<int64_t> ends_;  // [sets]: samples of sets 0 to s
};

// One set's samples without tiles: its source, cut to [start, end). learned: of validation, the
// classes of the model (see build_validation_set).
std::shared_ptr<const Dataset> build_mix_source(const MixSetConfig& config,
                                                const std::vector<std::string>* learned = nullptr);
// Opens every set. tiling: of the sets that name none.
std::shared_ptr<const MixDataset> build_mix_dataset(
    const MixConfig& config, const std::optional<TilingConfig>& tiling = {},
    const std::vector<std::string>* learned = nullptr);
// "3:5" as {3, 5}. Throws ConfigError: not numbers above 0, or not one for each of num_sets.
std::vector<int64_t> parse_group_list(const std::string& text, int64_t num_sets);

}  // namespace fovea::data
