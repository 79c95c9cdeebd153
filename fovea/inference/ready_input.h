// Inputs that are decoded and transformed before anybody asks about them: what is left is a pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fovea/data/batch.h"
#include "fovea/data/sample.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/inference/predict_input.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

struct ReadyInput {
  OpenInput from;                                        // what it was made of: a sample
  std::shared_ptr<const data::TiledDataset> tiles = {};  // that the model sees of it; null: all
  std::vector<data::Batch> passes = {};                  // see InputPasses
  std::optional<data::Sample> decoded = {};  // for a mask, which lies on the sample's own pixels

  // One row, that may share a pass with others.
  bool is_row() const { return tiles == nullptr; }
  int64_t bytes() const;  // that it holds beside `from`
};

// Throws DataError, ConfigError.
std::shared_ptr<ReadyInput> make_ready(const OpenInput& input, const train::Inference& inference);

// Of an input that was prepared; of others 0.
int64_t ready_bytes(const Input& input);

// The passes of the model over one input, in their order: one over all of it, or those over its
// tiles, as the model was trained. Made before, or read when it is their turn.
class InputPasses {
 public:
  // Both outlive it.
  InputPasses(const OpenInput& input, const train::Inference& inference);

  const std::shared_ptr<const data::TiledDataset>& tiles() const { return tiles_; }
  int64_t size() const;
  data::Batch fill(int64_t pass) const;                 // not of a tensor
  train::PreparedBatch operator[](int64_t pass) const;  // which may look into the input's memory

 private:
  std::pair<int64_t, int64_t> tiles_of(int64_t pass) const;  // first, count

  const OpenInput& input_;
  const train::Inference& inference_;
  std::shared_ptr<const data::TiledDataset> tiles_;
  int64_t tiles_of_pass_;
};

// Whether samples of the two have one shape, so that they can lie in one batch.
bool have_rows_alike(const data::Batch& a, const data::Batch& b);
// The rows of batches whose rows are alike, in order.
data::Batch joined(std::span<const data::Batch* const> parts);

}  // namespace fovea::inference
