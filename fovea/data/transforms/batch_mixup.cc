#include "fovea/data/transforms/batch_mixup.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/transforms/distributions.h"

namespace fovea::data {
namespace {

// Places of stream `a` of one batch: its own draws, or those of a row.
constexpr uint32_t kWholeBatch = 0;
constexpr uint32_t kFirstRow = 1;

// timm's int(): fractions cut off.
int64_t share_of(int64_t side, double share) {
  return static_cast<int64_t>(static_cast<double>(side) * share);
}

double box_lam(const PixelBox& box, ImageSize size) {
  return 1.0 - static_cast<double>(box.size.height * box.size.width) /
                   static_cast<double>(size.height * size.width);
}

FOVEA_SIMD void mixup_values(const float* partner, float lam, float rest, int64_t count,
                             float* row) {
  for (int64_t i = 0; i < count; ++i) {
    const float own = row[i] * lam;
    const float other = partner[i] * rest;
    row[i] = own + other;
  }
}

// Calls f(offset, count) for the runs of elements that a mixup changes.
template <class F>
void for_each_run(const RowMixup& mixup, ImageSize size, int64_t elements, F&& f) {
  if (!mixup.is_cutmix) return f(int64_t{0}, elements);
  const int64_t plane = size.height * size.width;
  for (int64_t offset = 0; offset < elements; offset += plane) {
    for (int64_t y = mixup.box.top; y < mixup.box.top + mixup.box.size.height; ++y) {
      f(offset + y * size.width + mixup.box.left, mixup.box.size.width);
    }
  }
}

}  // namespace

PixelBox cutmix_box(ImageSize size, double lam, int64_t y, int64_t x) {
  const double ratio = std::sqrt(1 - lam);
  const int64_t cut_h = share_of(size.height, ratio);
  const int64_t cut_w = share_of(size.width, ratio);
  const int64_t top = std::clamp<int64_t>(y - cut_h / 2, 0, size.height);
  const int64_t left = std::clamp<int64_t>(x - cut_w / 2, 0, size.width);
  const int64_t bottom = std::clamp<int64_t>(y + (cut_h + 1) / 2, 0, size.height);
  const int64_t right = std::clamp<int64_t>(x + (cut_w + 1) / 2, 0, size.width);
  return {top, left, {bottom - top, right - left}};
}

PixelBox draw_cutmix_box(ImageSize size, double lam, RandomStream& random) {
  const int64_t y = random.below(static_cast<uint32_t>(size.height));
  const int64_t x = random.below(static_cast<uint32_t>(size.width));
  return cutmix_box(size, lam, y, x);
}

PixelBox draw_cutmix_box_minmax(ImageSize size, double least, double largest,
                                RandomStream& random) {
  const auto draw_side = [&](int64_t side) {
    const int64_t low = share_of(side, least);
    return low + random.below(static_cast<uint32_t>(share_of(side, largest) - low));
  };
  const int64_t height = draw_side(size.height);
  const int64_t width = draw_side(size.width);
  const int64_t top = random.below(static_cast<uint32_t>(size.height - height + 1));
  const int64_t left = random.below(static_cast<uint32_t>(size.width - width + 1));
  return {top, left, {height, width}};
}

BatchMixup::BatchMixup(const MixupConfig& config, uint64_t seed, ImageSize size)
    : config_(config), seed_(seed), size_(size) {
  if (!config_.is_on()) {
    fail<ConfigError>("mixup_alpha, cutmix_alpha and cutmix_minmax are all off; set one");
  }
  if (config_.cutmix_minmax.empty()) return;
  config_.cutmix_alpha = 1;  // as timm: switched by chance like a cutmix of alpha 1
  for (const int64_t side : {size.height, size.width}) {
    if (share_of(side, config_.cutmix_minmax[1]) <= share_of(side, config_.cutmix_minmax[0])) {
      fail<ConfigError>(
          "cutmix_minmax=[{}, {}] leaves no whole number of pixels of a side of {}; widen it",
          config_.cutmix_minmax[0], config_.cutmix_minmax[1], side);
    }
  }
}

RowMixup BatchMixup::draw(RandomStream random, bool is_batch) const {
  RowMixup mixup;
  if (random.uniform(0.0, 1.0) >= config_.prob) return mixup;
  const bool has_both = config_.mixup_alpha > 0 && config_.cutmix_alpha > 0;
  const bool is_cutmix =
      has_both ? random.uniform(0.0, 1.0) < config_.switch_prob : config_.cutmix_alpha > 0;
  const double alpha = is_cutmix ? config_.cutmix_alpha : config_.mixup_alpha;
  double lam = draw_beta(alpha, alpha, random);
  if (!is_batch) lam = static_cast<double>(static_cast<float>(lam));
  if (lam == 1.0) return mixup;
  mixup.lam = lam;
  if (!is_cutmix) return mixup;
  mixup.is_cutmix = true;
  const bool has_minmax = !config_.cutmix_minmax.empty();
  mixup.box = has_minmax ? draw_cutmix_box_minmax(size_, config_.cutmix_minmax[0],
                                                  config_.cutmix_minmax[1], random)
                         : draw_cutmix_box(size_, lam, random);
  if (config_.correct_lam || has_minmax) {
    mixup.lam = box_lam(mixup.box, size_);
    if (!is_batch) mixup.lam = static_cast<double>(static_cast<float>(mixup.lam));
  }
  return mixup;
}

RowMixup BatchMixup::plan_in(PhiloxKey key, int64_t position, int64_t row, int64_t num_rows) const {
  FOVEA_CHECK(row >= 0 && row < num_rows, "row {} of a batch of {}", row, num_rows);
  const int64_t partner = num_rows - 1 - row;
  // In a batch of an odd number the row in the middle has no partner but itself.
  const bool is_alone = partner == row && config_.mode == "pair";
  RowMixup mixup;
  if (!is_alone) {
    uint32_t place = kWholeBatch;
    if (config_.mode == "elem") place = kFirstRow + static_cast<uint32_t>(row);
    if (config_.mode == "pair") place = kFirstRow + static_cast<uint32_t>(std::min(row, partner));
    mixup =
        draw(RandomStream(key, static_cast<uint64_t>(position), place), config_.mode == "batch");
  }
  mixup.row = row;
  mixup.partner = partner;
  return mixup;
}

RowMixup BatchMixup::plan_row(int64_t position, int64_t row, int64_t num_rows) const {
  return plan_in(philox_key(seed_, "mixup"), position, row, num_rows);
}

std::vector<RowMixup> BatchMixup::plan(int64_t position, int64_t num_rows,
                                       const BatchShare& share) const {
  std::vector<RowMixup> plan;
  const int64_t first = share.begin(num_rows), local_rows = share.rows(num_rows);
  for (int64_t i = 0; i < local_rows; ++i) {
    const int64_t row = first + i;
    if (!config_.timm_local) {
      plan.push_back(plan_row(position, row, num_rows));
      continue;
    }
    // Ranks draw for themselves, as timm's do.
    const auto key = philox_key(seed_, "mixup.local." + std::to_string(share.first));
    RowMixup mixup = plan_in(key, position, i, local_rows);
    mixup.partner = first + mixup.partner;
    mixup.row = row;
    plan.push_back(mixup);
  }
  return plan;
}

void mixup_row(const RowMixup& mixup, ImageSize size, std::span<const float> partner,
               std::span<float> row) {
  FOVEA_CHECK(partner.size() == row.size(), "a row of {} values and a partner of {}", row.size(),
              partner.size());
  if (!mixup.is_mixed()) return;
  const auto lam = static_cast<float>(mixup.lam);
  const auto rest = static_cast<float>(1.0 - mixup.lam);
  for_each_run(mixup, size, static_cast<int64_t>(row.size()), [&](int64_t offset, int64_t count) {
    if (mixup.is_cutmix) {
      std::copy_n(partner.data() + offset, count, row.data() + offset);
    } else {
      mixup_values(partner.data() + offset, lam, rest, count, row.data() + offset);
    }
  });
}

void mixup_batch(std::span<const RowMixup> plan, ImageSize size, std::span<float> images,
                 std::vector<float>& scratch) {
  if (plan.empty()) return;
  const size_t floats = images.size() / plan.size();
  scratch.resize(floats);
  const auto image = [&](size_t i) { return images.subspan(i * floats, floats); };
  for (size_t i = 0; i < plan.size(); ++i) {
    const size_t j = plan.size() - 1 - i;
    if (i > j) break;
    FOVEA_CHECK(
        plan[i].partner == plan[j].row && plan[j].partner == plan[i].row,
        "row {} is mixed with row {}, which is not in this batch; read it and use mixup_row",
        plan[i].row, plan[i].partner);
    const auto kept = image(i);
    scratch.assign(kept.begin(), kept.end());
    mixup_row(plan[i], size, image(j), image(i));
    if (i != j) mixup_row(plan[j], size, scratch, image(j));
  }
}

void mixup_targets(std::span<const RowMixup> plan, std::span<const int64_t> labels,
                   std::span<const int64_t> partner_labels, int64_t num_classes, double smoothing,
                   std::span<float> targets) {
  FOVEA_CHECK(labels.size() == plan.size() && partner_labels.size() == plan.size() &&
                  targets.size() == plan.size() * static_cast<size_t>(num_classes),
              "{} rows with {} labels, {} of partners and room for {} targets", plan.size(),
              labels.size(), partner_labels.size(), targets.size());
  const double off = smoothing / static_cast<double>(num_classes);
  const auto off_value = static_cast<float>(off);
  const auto on_value = static_cast<float>(1.0 - smoothing + off);
  for (size_t i = 0; i < plan.size(); ++i) {
    for (const int64_t label : {labels[i], partner_labels[i]}) {
      if (label < 0 || label >= num_classes) {
        fail<DataError>("label {} for mixing; expected 0 to {}", label, num_classes - 1);
      }
    }
    const auto lam = static_cast<float>(plan[i].lam);
    const auto rest = static_cast<float>(1.0 - plan[i].lam);
    float* row = targets.data() + static_cast<int64_t>(i) * num_classes;
    for (int64_t k = 0; k < num_classes; ++k) {
      const float own = (k == labels[i] ? on_value : off_value) * lam;
      const float other = (k == partner_labels[i] ? on_value : off_value) * rest;
      row[k] = own + other;
    }
  }
}

}  // namespace fovea::data
