#include "fovea/data_tools/inspect/inspection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data_tools/inspect/choose_samples.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr int64_t kSampleSide = 128;
constexpr int64_t kVolumeSide = 144;
constexpr int64_t kTreeSide = 512;
constexpr int64_t kTreeVolumeSide = 360;

Image stored_picture(const InspectedSet& set, int64_t index) {
  Sample sample;
  read_decoded(*set.dataset, index, sample);
  if (sample.is<Volume>()) {
    return volume_picture(sample.volume(), 0, sample.mask, set.layout, kVolumeSide);
  }
  return masked_picture(to_rgb(ImageView(sample.image())), sample.mask, kSampleSide);
}

void finish_sheet(PictureSheet& sheet, int64_t group) {
  std::vector<Image> pictures;
  ImageSize cell;
  for (const auto& one : sheet.pictures) {
    pictures.push_back(one.picture);
    cell.height = std::max(cell.height, one.picture.height);
    cell.width = std::max(cell.width, one.picture.width);
  }
  if (pictures.empty()) return;
  if (sheet.columns == 0) {
    sheet.columns = sheet_columns(static_cast<int64_t>(pictures.size()), cell, group);
  }
  sheet.sheet = contact_sheet(pictures, {.columns = sheet.columns});
}

// What the data set calls these samples, without the folders that all names begin with.
std::vector<std::string> short_names(const Dataset& dataset, const std::vector<int64_t>& indices) {
  std::vector<std::string> names;
  for (const int64_t index : indices) names.push_back(printable(dataset.describe(index)));
  if (names.size() < 2) return names;
  std::string common = names[0];
  for (const auto& name : names) {
    const auto [mine, other] =
        std::mismatch(common.begin(), common.end(), name.begin(), name.end());
    common.erase(mine, common.end());
  }
  const size_t end = common.rfind('/') + 1;  // 0 where there is none
  for (auto& name : names) name.erase(0, end);
  return names;
}

PictureSheet show_samples(const InspectedSet& set, int64_t count, std::vector<std::string>& notes) {
  const auto chosen = choose_by_class(set.statistics.records, count);
  PictureSheet sheet{.title = set.name, .pictures = {}, .columns = 0, .sheet = {}};
  std::vector<int64_t> indices;
  for (const SampleRecord& record : chosen.samples) indices.push_back(record.index);
  const auto names = short_names(*set.dataset, indices);
  for (size_t i = 0; i < names.size(); ++i) {
    const SampleRecord& record = chosen.samples[i];
    const bool has_label = chosen.per_class > 0;
    try {
      sheet.pictures.push_back({stored_picture(set, record.index),
                                has_label ? class_name_of(*set.dataset, record.label) : names[i],
                                has_label ? names[i] : std::string()});
    } catch (const DataError& error) {  // it could be read before
      notes.push_back(fmt::format("{} is not shown: {}", names[i], printable(error.what())));
    }
  }
  finish_sheet(sheet, chosen.per_class);
  return sheet;
}

// Which set of a mix sample `index` belongs to.
size_t set_number(const TransformedSets& source, int64_t index) {
  size_t set = 0;
  for (; set + 1 < source.set_sizes.size() && index >= source.set_sizes[set]; ++set) {
    index -= source.set_sizes[set];
  }
  return set;
}

// Samples spread evenly, each from the middle of its part.
std::vector<int64_t> spread(int64_t total, int64_t count) {
  count = std::min(count, total);
  if (count <= 0) return {};
  auto indices = even_subset(total, count);
  for (int64_t& index : indices) index += total / count / 2;
  return indices;
}

PictureSheet show_augmented(const TransformedSets& source, const InspectionOptions& options,
                            std::vector<std::string>& notes) {
  PictureSheet sheet{
      .title = "augmented", .pictures = {}, .columns = options.draws + 1, .sheet = {}};
  const auto indices = spread(source.dataset->size(), options.rows);
  const auto names = short_names(*source.dataset, indices);
  for (size_t row = 0; row < indices.size(); ++row) {
    const int64_t index = indices[row];
    const auto& name = names[row];
    const size_t set = set_number(source, index);
    const AugmentedOptions augmented = {.seed = options.seed,
                                        .draws = options.draws,
                                        .side = kSampleSide,
                                        .layout = source.layouts.at(set)};
    try {
      const auto pictures =
          augmented_pictures(*source.dataset, source.transforms.at(set), index, augmented);
      for (size_t i = 0; i < pictures.size(); ++i) {
        sheet.pictures.push_back(
            {pictures[i], i == 0 ? name : fmt::format("epoch {}", i - 1), std::string()});
      }
    } catch (const DataError& error) {
      notes.push_back(
          fmt::format("{} is not among the augmented samples: {}", name, printable(error.what())));
    }
  }
  finish_sheet(sheet, 0);
  return sheet;
}

void add_tree(const Sample& sample, SliceLayout layout, const std::string& name,
              const InspectionOptions& options, PictureSheet& sheet) {
  const bool is_volume = sample.is<Volume>();
  auto tree = tree_picture(sample, *options.tree, layout, is_volume ? kTreeVolumeSide : kTreeSide,
                           options.tree_has_own_range);
  auto note = fmt::format("{} leaves of {} to {} {}", tree.leaves, tree.smallest, tree.largest,
                          is_volume ? "voxels" : "pixels");
  if (is_volume && options.tree_has_own_range) {
    note += fmt::format("; value_range [{:.4g}, {:.4g}]", tree.window.black, tree.window.white);
  }
  sheet.pictures.push_back({std::move(tree.picture), name, std::move(note)});
}

// With a source: the samples as the model gets them in evaluation; else as they are stored.
PictureSheet show_trees(const Inspection& inspection, const std::optional<TransformedSets>& source,
                        const InspectionOptions& options, std::vector<std::string>& notes) {
  PictureSheet sheet{.title = "trees", .pictures = {}, .columns = 0, .sheet = {}};
  const InspectedSet& first = inspection.sets.front();
  const Dataset& dataset = source ? *source->dataset : *first.dataset;
  const auto indices = spread(dataset.size(), options.trees);
  const auto names = short_names(dataset, indices);
  for (size_t i = 0; i < indices.size(); ++i) {
    const int64_t index = indices[i];
    const auto& name = names[i];
    try {
      Sample sample;
      const size_t set = source ? set_number(*source, index) : 0;
      if (source) {
        sample = transformed_sample(dataset, source->transforms.at(set), index, options.seed);
      } else {
        read_decoded(dataset, index, sample);
      }
      add_tree(sample, source ? source->layouts.at(set) : first.layout, name, options, sheet);
    } catch (const DataError& error) {
      notes.push_back(fmt::format("no tree of {}: {}", name, printable(error.what())));
    }
  }
  const bool is_volume = dataset.form() == SampleForm::kVolume;
  if (is_volume) sheet.columns = 1;
  finish_sheet(sheet, 2);
  return sheet;
}

}  // namespace

bool Inspection::has_damaged() const {
  return std::any_of(sets.begin(), sets.end(),
                     [](const auto& set) { return !set.statistics.damaged.empty(); });
}

Inspection inspect(std::vector<InspectedSet> sets, const std::optional<TransformedSets>& training,
                   const std::optional<TransformedSets>& evaluation,
                   const InspectionOptions& options) {
  FOVEA_CHECK(!sets.empty(), "no data set to inspect");
  Inspection inspection;
  inspection.sets = std::move(sets);
  std::vector<HashedSet> hashed;
  for (InspectedSet& set : inspection.sets) {
    StatisticsOptions reading = {.threads = options.threads,
                                 .max_samples = options.max_samples,
                                 .channels = options.channels};
    if (options.progress) {
      reading.progress = [&](int64_t done, int64_t total) {
        options.progress(set.name, done, total);
      };
    }
    set.statistics = compute_statistics(*set.dataset, reading);
    hashed.push_back({set.section, &set.statistics.records});
  }
  inspection.duplicates = find_duplicates(hashed);
  for (const InspectedSet& set : inspection.sets) {
    inspection.samples.push_back(show_samples(set, options.samples, inspection.notes));
  }
  if (training) inspection.augmented = show_augmented(*training, options, inspection.notes);
  if (options.tree) {
    inspection.trees = show_trees(inspection, evaluation, options, inspection.notes);
  }
  return inspection;
}

std::string class_name_of(const Dataset& dataset, int64_t label) {
  if (label < 0) return "no label";
  const auto& names = dataset.class_names();
  const auto place = static_cast<size_t>(label);
  return place < names.size() ? printable(names[place]) : fmt::format("class {}", label);
}

std::string size_text(const Extent& size, SampleForm form) {
  if (form == SampleForm::kImage) return fmt::format("{} x {}", size[1], size[2]);
  return fmt::format("{}", fmt::join(size, " x "));
}

std::string normalize_line(const SetStatistics& statistics) {
  if (statistics.moments.empty()) return {};
  std::vector<std::string> means, deviations;
  const bool is_image = statistics.form == SampleForm::kImage;
  const auto number = [&](double value) {
    return is_image ? fmt::format("{:.4f}", value) : fmt::format("{:.6g}", value);
  };
  for (const ChannelMoments& channel : statistics.moments) {
    means.push_back(number(channel.mean));
    deviations.push_back(number(channel.std));
  }
  return is_image ? fmt::format("{{name: normalize, mean: [{}], std: [{}]}}",
                                fmt::join(means, ", "), fmt::join(deviations, ", "))
                  : fmt::format("{{name: normalize_intensity, subtrahend: [{}], divisor: [{}]}}",
                                fmt::join(means, ", "), fmt::join(deviations, ", "));
}

}  // namespace fovea::data
