#include "fovea/data/batch/batch_maker.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/order/repeated_augmentation.h"
#include "fovea/data/transforms/image/pipeline.h"

namespace fovea::data {
namespace {

SampleOrder make_order(const Dataset* dataset, const LoaderOptions& options) {
  SampleOrderOptions order{.mix = options.mix,
                           .global_batch_size = options.global_batch_size,
                           .batch_schedule = options.batch_schedule,
                           .seed = options.seed,
                           .shuffle = options.shuffle,
                           .drop_last = options.drop_last,
                           .num_repeats = options.num_repeats};
  FOVEA_CHECK(dataset != nullptr, "a loader needs a data set");
  auto& sizes = order.mix.set_sizes;
  const int64_t size = dataset->size();
  if (size == 0) fail<DataError>("the data set is empty; check its path");
  if (sizes.empty()) {
    sizes = {size};
    order.mix.tiles = {dataset->tile_windows()};
  }
  const int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  FOVEA_CHECK(sum == size, "sets of {} samples in a data set of {}", sum, size);
  return SampleOrder(order);
}

void check_share(const LoaderOptions& options) {
  const BatchShare& share = options.share;
  FOVEA_CHECK(
      share.of > 0 && share.first >= 0 && share.first < share.last && share.last <= share.of,
      "parts {} to {} of a batch of {} parts do not exist", share.first, share.last, share.of);
  if (options.mix.mode != MixMode::kRankGroups) return;
  const auto& groups = options.mix.rank_groups;
  const int64_t ranks = std::accumulate(groups.begin(), groups.end(), int64_t{0});
  if (ranks != share.of || share.last - share.first != 1) {
    fail<ConfigError>(
        "dataset_group_list is for {} ranks, but the data is read by {}; rank groups depend on the "
        "number of ranks: make the list anew with `fovea data balance`, or use mix: exact",
        ranks, share.of);
  }
}

// Whether all partners of a share's rows are among these.
bool has_partners(const LoaderOptions& options) {
  return options.share.is_whole() || options.mixup->timm_local;
}

void check_mixup(const LoaderOptions& options) {
  if (options.pixel_type != PixelType::kUint8 || has_partners(options)) return;
  fail<ConfigError>(
      "mixup and cutmix of bytes with partners in other processes; mix floats, or set "
      "mixup.timm_local: true");
}

// A row that is not mixed after all: one that cannot be read, or whose partner cannot.
RowMixup left_alone(const RowMixup& mixup) { return {.row = mixup.row, .partner = mixup.partner}; }

// For who makes floats of the bytes. plan: of the first rows, whose partners are in reverse order;
// the others, which fill the batch up to num_rows, are not mixed.
std::vector<ByteMixup> byte_mixups(std::span<const RowMixup> plan, int64_t num_rows) {
  std::vector<ByteMixup> mixups(static_cast<size_t>(num_rows));
  for (size_t i = 0; i < mixups.size(); ++i) {
    mixups[i].partner = static_cast<int64_t>(i < plan.size() ? plan.size() - 1 - i : i);
    if (i >= plan.size()) continue;
    const auto& [top, left, size] = plan[i].box;
    if (plan[i].is_cutmix && size.height * size.width > 0) {
      mixups[i] = {mixups[i].partner, top, left, size.height, size.width};
    } else if (!plan[i].is_cutmix) {
      mixups[i].lam = static_cast<float>(plan[i].lam);
    }
  }
  return mixups;
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset,
                       std::vector<SampleTransforms> transforms, const LoaderOptions& options)
    : dataset_(std::move(dataset)), options_(options), order_(make_order(dataset_.get(), options)) {
  check_share(options_);
  const auto num_sets = static_cast<size_t>(order_.num_sets());
  FOVEA_CHECK(transforms.size() == num_sets, "{} pipelines for {} sets; expected one each",
              transforms.size(), num_sets);
  FOVEA_CHECK(options_.variables.empty() || options_.variables.size() == num_sets,
              "names of channels for {} sets of {}; expected some for each",
              options_.variables.size(), num_sets);
  int64_t start = 0;
  for (size_t set = 0; set < num_sets; ++set) {
    set_starts_.push_back(start);
    sets_.emplace_back(dataset_, std::move(transforms[set]), start, options_);
    if (num_sets > 1) start += options_.mix.set_sizes[set];
  }
  set_starts_.push_back(dataset_->size());
  has_labels_ = dataset_->num_classes() > 0;
  if (options_.mixup && options_.mixup->is_on()) make_mixups();
}

void BatchMaker::make_mixups() {
  if (!has_labels_ || dataset_->has_masks()) {
    fail<ConfigError>("mixup and cutmix need a class for each sample; the data set has {}",
                      dataset_->has_masks() ? "masks" : "no labels");
  }
  check_mixup(options_);
  if (options_.mix.mode == MixMode::kRankGroups && !options_.mixup->timm_local) {
    fail<ConfigError>(
        "mixup and cutmix with mix: rank_groups, where rows of a batch come from several sets; set "
        "mixup.timm_local: true");
  }
  for (const BatchFiller& filler : sets_) {
    const VolumeSize size = filler.size();
    if (size.depth > 1 &&
        (options_.mixup->cutmix_alpha > 0 || !options_.mixup->cutmix_minmax.empty()))
      fail<ConfigError>("cutmix of volumes; it is for images (mixup_alpha works for both)");
    mixups_.emplace_back(*options_.mixup, options_.seed, ImageSize{size.height, size.width});
  }
}

void BatchMaker::set_share(const BatchShare& share) {
  LoaderOptions options = options_;
  options.share = share;
  check_share(options);
  if (!mixups_.empty()) check_mixup(options);
  options_.share = share;
}

// Else rows read their partners' samples themselves.
bool BatchMaker::has_all_partners() const { return has_partners(options_); }

int64_t BatchMaker::set_of(const GlobalBatch& plan) const {
  return plan.set >= 0 ? plan.set : order_.place(plan, options_.share.begin(plan.rows)).set;
}

void BatchMaker::check_position(int64_t position) const {
  FOVEA_CHECK(order_.is_start(position),
              "position={}: no batch starts there with {} samples an epoch and "
              "global_batch_size={}{}; go on with the "
              "data set and batch size that the position was saved with",
              position, order_.samples_per_epoch(), options_.global_batch_size,
              order_.batch_schedule().size() > 1 ? " at first" : "");
}

int64_t BatchMaker::next_position(int64_t position) const {
  return position + order_.batch_at(position).rows;
}

void BatchMaker::open(int64_t position, Batch& batch) const {
  const GlobalBatch plan = order_.batch_at(position);
  const BatchShare& share = options_.share;
  const int64_t rows = options_.pad_shares ? share.most_rows(plan.rows) : share.rows(plan.rows);
  batch.position = position;
  batch.epoch = plan.epoch;
  batch.global_size = plan.rows;
  batch.share = share;
  batch.set = set_of(plan);
  if (!options_.variables.empty()) {
    batch.variables = options_.variables[static_cast<size_t>(batch.set)];
  }
  open_rows(batch, rows);
}

void BatchMaker::open_rows(Batch& batch, int64_t rows) const {
  filler_of(batch.set).open(batch, rows);
  batch.labels.resize(has_labels_ ? static_cast<size_t>(rows) : 0);
  batch.targets.resize(mixups_.empty() ? 0 : static_cast<size_t>(rows * dataset_->num_classes()));
  batch.indices.resize(static_cast<size_t>(rows));
  batch.rows.resize(static_cast<size_t>(rows));
  batch.weights.resize(static_cast<size_t>(rows));
}

void BatchMaker::fill(Batch& batch, int64_t first, int64_t last, BatchScratch& scratch) const {
  const GlobalBatch plan = order_.batch_at(batch.position);
  const int64_t begin = options_.share.begin(plan.rows), end = options_.share.end(plan.rows);
  for (int64_t row = first; row < last; ++row) {
    const int64_t global_row = begin + row;
    batch.rows[row] = global_row;
    if (global_row >= end) {
      fill_up(batch, row);
      continue;
    }
    fill_row(batch, row, order_.place(plan, global_row), scratch);
    if (!mixups_.empty() && !has_all_partners()) mixup_with_partner(batch, row, plan, scratch);
  }
}

void BatchMaker::fill_in_place_of_bad(Batch& batch, int64_t row, const SamplePlace& place,
                                      const DataError& error, BatchScratch& scratch) const {
  const BadSamplePolicy policy = options_.bad_samples.policy;
  const int64_t bad = batch.indices[row];
  std::string reason = named_message(*dataset_, bad, error);
  if (policy == BadSamplePolicy::kError) throw DataError(reason);
  scratch.bad_samples.push_back({row, bad, dataset_->describe(bad), reason});
  if (policy == BadSamplePolicy::kSkip) return fill_up(batch, row);
  const auto set = static_cast<size_t>(place.set);
  const int64_t first = set_starts_[set], size = set_starts_[set + 1] - first;
  const uint64_t seed = options_.seed;
  for (int64_t attempt = 0; size > 1 && attempt < kSubstituteTries; ++attempt) {
    const int64_t other = substitute_sample(seed, place.cycle, bad, attempt, first, size);
    try {
      filler_of(batch.set).fill(batch, row, other,
                                substitute_stream(seed, place.cycle, bad, attempt, place.repeat),
                                scratch);
      batch.indices[row] = other;
      return;
    } catch (const DataError& again) {
      scratch.bad_samples.push_back(
          {row, other, dataset_->describe(other), named_message(*dataset_, other, again)});
    }
  }
  fail<DataError>("{}; and none of {} other samples drawn for its place can be read", reason,
                  size > 1 ? kSubstituteTries : 0);
}

void BatchMaker::fill_up(Batch& batch, int64_t row) const {
  batch.indices[row] = -1;
  batch.weights[row] = 0.0f;
  if (!mixups_.empty()) {
    const int64_t classes = dataset_->num_classes();
    std::fill_n(batch.targets.begin() + row * classes, classes, 0.0f);
  }
  filler_of(batch.set).clear(batch, row);
}

void BatchMaker::fill_row(Batch& batch, int64_t row, const SamplePlace& place,
                          BatchScratch& scratch) const {
  const int64_t index = index_of(place);
  batch.indices[row] = index;
  batch.weights[row] = 1.0f;
  try {
    const auto random =
        repeated_augmentation_stream(options_.seed, place.cycle, index, place.repeat);
    filler_of(batch.set).fill(batch, row, index, random, scratch);
    if (!mixups_.empty()) check_label(batch.labels[row]);
  } catch (const DataError& error) {
    fill_in_place_of_bad(batch, row, place, error, scratch);
  }
}

void BatchMaker::check_label(int64_t label) const {
  if (label >= 0 && label < dataset_->num_classes()) return;
  fail<DataError>("label {}; mixup and cutmix need classes from 0 to {}", label,
                  dataset_->num_classes() - 1);
}

int64_t BatchMaker::index_of(const SamplePlace& place) const {
  return set_starts_[static_cast<size_t>(place.set)] + place.index;
}

// The partner belongs to another process, so it is read here too: no process waits for another's
// pixels, and the result is that of one process alone.
void BatchMaker::mixup_with_partner(Batch& batch, int64_t row, const GlobalBatch& plan,
                                    BatchScratch& scratch) const {
  const int64_t num_classes = dataset_->num_classes();
  RowMixup mixup = mixup_of(batch.set).plan_row(plan.position, batch.rows[row], plan.rows);
  Batch& partner = scratch.partner;
  if (mixup.is_mixed()) {
    partner.set = batch.set;
    open_rows(partner, 1);
    const size_t num_events = scratch.bad_samples.size();
    fill_row(partner, 0, order_.place(plan, mixup.partner), scratch);
    scratch.bad_samples.resize(num_events);  // the partner's own row tells of them
    if (batch.weights[row] == 0 || partner.weights[0] == 0) mixup = left_alone(mixup);
  }
  const bool is_mixed = mixup.is_mixed();
  if (is_mixed) {
    const VolumeSize size = filler_of(batch.set).size();
    const size_t values = partner.images.size();
    mixup_row(mixup, {size.height, size.width}, partner.images,
              std::span(batch.images).subspan(static_cast<size_t>(row) * values, values));
  }
  mixup_targets(
      {&mixup, 1}, {&batch.labels[row], 1},
      {&(is_mixed ? partner.labels[0] : batch.labels[row]), 1}, num_classes, 0,
      std::span(batch.targets)
          .subspan(static_cast<size_t>(row * num_classes), static_cast<size_t>(num_classes)));
}

void BatchMaker::finish(Batch& batch, BatchScratch& scratch) const {
  if (mixups_.empty() || !has_all_partners() || batch.size() == 0) return;
  const int64_t global_rows = order_.batch_at(batch.position).rows;
  auto plan = mixup_of(batch.set).plan(batch.position, global_rows, options_.share);
  const size_t rows = plan.size();  // rows that pad the share are not among them
  if (rows == 0) return;
  for (size_t i = 0; i < rows; ++i) {
    if (batch.weights[i] == 0 || batch.weights[rows - 1 - i] == 0) plan[i] = left_alone(plan[i]);
  }
  const VolumeSize size = filler_of(batch.set).size();
  const auto labels = std::span(batch.labels).first(rows);
  const std::vector<int64_t> partner_labels(labels.rbegin(), labels.rend());
  const auto classes = static_cast<size_t>(dataset_->num_classes());
  mixup_targets(plan, labels, partner_labels, dataset_->num_classes(), 0,
                std::span(batch.targets).first(rows * classes));
  if (options_.pixel_type == PixelType::kUint8) {
    batch.byte_steps.mixups = byte_mixups(plan, batch.size());
    return;
  }
  const size_t values = batch.images.size() / static_cast<size_t>(batch.size());
  mixup_batch(plan, {size.height, size.width}, std::span(batch.images).first(rows * values),
              scratch.mixed);
}

}  // namespace fovea::data
