// Everything that `fovea data inspect` finds out about data sets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data_tools/inspect/augmented_pictures.h"
#include "fovea/data_tools/inspect/duplicates.h"
#include "fovea/data_tools/inspect/statistics.h"
#include "fovea/data_tools/inspect/tree_pictures.h"

namespace fovea::data {

// A set as its files hold it: without tiles and transforms.
struct InspectedSet {
  std::string name;     // "train", "train/ct1", "val"
  std::string section;  // "train", "val"
  std::shared_ptr<const Dataset> dataset;
  SliceLayout layout = SliceLayout::kMatrix;
  SetStatistics statistics = {};  // filled by inspect()
};

// What the model gets: a section of a recipe opened.
struct TransformedSets {
  std::shared_ptr<const Dataset> dataset;    // with tiles; of a mix: all sets
  std::vector<SampleTransforms> transforms;  // one for each set
  std::vector<int64_t> set_sizes;            // empty: one set
  std::vector<SliceLayout> layouts;          // one for each set
};

// A picture with what stands below it.
struct CaptionedPicture {
  Image picture;  // RGB
  std::string caption;
  std::string note;
};

// Pictures that belong together.
struct PictureSheet {
  std::string title;
  std::vector<CaptionedPicture> pictures;
  int64_t columns = 8;
  Image sheet;  // all of them; empty: there are none
};

struct InspectionOptions {
  int64_t threads = 0;
  int64_t max_samples = 0;  // of each set; 0: all
  int64_t channels = 0;     // of the model; 0: as stored
  int64_t samples = 40;     // pictures of each set
  int64_t rows = 8;         // augmented samples
  int64_t draws = 8;        // of each
  int64_t trees = 4;
  uint64_t seed = 42;
  std::optional<AdaptivePatchingConfig> tree = {};
  bool tree_has_own_range = true;  // see tree_picture
  // Called with the name of a set and how far its reading is.
  std::function<void(const std::string& set, int64_t done, int64_t total)> progress = {};
};

struct Inspection {
  std::vector<InspectedSet> sets;
  DuplicateReport duplicates;
  std::vector<PictureSheet> samples;      // one for each set with samples that can be read
  std::optional<PictureSheet> augmented;  // rows: the sample as stored, then its draws
  std::optional<PictureSheet> trees;
  std::vector<std::string> notes;  // what could not be shown, and why

  bool has_damaged() const;
};

// Reads every set once, and the samples that are shown once more. Samples that cannot be read are
// named in the statistics, never thrown. training: what augmented samples are made of; evaluation:
// what trees are drawn over; without it, the samples as they are stored. Throws ConfigError:
// transforms or patching that cannot be.
Inspection inspect(std::vector<InspectedSet> sets, const std::optional<TransformedSets>& training,
                   const std::optional<TransformedSets>& evaluation,
                   const InspectionOptions& options);

// "coat", or "class 3" where the set does not name it; "no label".
std::string class_name_of(const Dataset& dataset, int64_t label);

// [D, H, W] as "224 x 224" or, of volumes, "91 x 109 x 91".
std::string size_text(const Extent& size, SampleForm form);

// The transform that takes mean and deviation out, as a recipe writes it; empty without samples.
std::string normalize_line(const SetStatistics& statistics);

}  // namespace fovea::data
