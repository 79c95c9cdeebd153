#include "fovea/inference/ready_input.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/inference/pass.h"
#include "fovea/models/segmenter.h"

namespace fovea::inference {
namespace {

std::shared_ptr<const data::TiledDataset> tiles_seen(const OpenInput& input,
                                                     const train::Inference& inference) {
  if (!input.samples) return nullptr;
  if (input.ready) return input.ready->tiles;
  const auto* segmenter = inference.model->as_segmenter();
  if (segmenter == nullptr) return inference.cut(input.only());
  // A model of patches has as many of them for any image: it is given what it was trained on.
  const bool whole_slices = !segmenter->gives_patches();
  return inference.takes_slices() ? inference.cut(input.only(), whole_slices) : nullptr;
}

template <class T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

int64_t bytes_of(const data::Sample& sample) {
  return sample.is<data::Volume>() ? bytes_of(sample.volume().values)
                                   : bytes_of(sample.image().pixels);
}

}  // namespace

int64_t ReadyInput::bytes() const {
  int64_t bytes = decoded ? bytes_of(*decoded) : 0;
  for (const auto& pass : passes) {
    bytes += bytes_of(pass.images) + bytes_of(pass.patches.tokens) +
             bytes_of(pass.patches.centers) + bytes_of(pass.image_patches.values);
  }
  return bytes;
}

int64_t ready_bytes(const Input& input) {
  const auto* ready = std::get_if<std::shared_ptr<ReadyInput>>(&input.content);
  return ready != nullptr ? (*ready)->bytes() : 0;
}

std::shared_ptr<ReadyInput> make_ready(const OpenInput& input, const train::Inference& inference) {
  if (input.error) throw *input.error;
  if (input.ready) return input.ready;
  const InputPasses passes(input, inference);
  auto ready = std::make_shared<ReadyInput>(ReadyInput{.from = input, .tiles = passes.tiles()});
  for (int64_t pass = 0; pass < passes.size(); ++pass) ready->passes.push_back(passes.fill(pass));
  if (inference.model->as_segmenter() != nullptr)
    read_decoded(*input.samples, input.index, ready->decoded.emplace());
  return ready;
}

InputPasses::InputPasses(const OpenInput& input, const train::Inference& inference)
    : input_(input),
      inference_(inference),
      tiles_(tiles_seen(input, inference)),
      // Masks of tiles are put together one by one.
      tiles_of_pass_(inference.model->as_segmenter() != nullptr ? 1 : kPassSize) {}

int64_t InputPasses::size() const {
  return tiles_ ? (tiles_->size() + tiles_of_pass_ - 1) / tiles_of_pass_ : 1;
}

std::pair<int64_t, int64_t> InputPasses::tiles_of(int64_t pass) const {
  const auto first = pass * tiles_of_pass_;
  return {first, std::min(tiles_of_pass_, tiles_->size() - first)};
}

data::Batch InputPasses::fill(int64_t pass) const {
  if (!tiles_) return inference_.fill(input_.samples, input_.index, 1);
  const auto [first, count] = tiles_of(pass);
  return inference_.fill(tiles_, first, count);
}

// Tensors look into the buffers beside them: a batch that was made is never moved.
train::PreparedBatch InputPasses::operator[](int64_t pass) const {
  if (!tiles_) return prepare(input_, inference_);
  if (input_.ready) {
    auto& ready = input_.ready->passes[static_cast<size_t>(pass)];
    return {.buffers = {}, .tensors = inference_.on_device(ready)};
  }
  const auto [first, count] = tiles_of(pass);
  return inference_.prepare(tiles_, first, count);
}

bool have_rows_alike(const data::Batch& a, const data::Batch& b) {
  return std::equal(a.image_shape.begin() + 1, a.image_shape.end(), b.image_shape.begin() + 1,
                    b.image_shape.end()) &&
         a.patches.fixed_length == b.patches.fixed_length &&
         a.image_patches.max_patches == b.image_patches.max_patches;
}

data::Batch joined(std::span<const data::Batch* const> parts) {
  const data::Batch& first = *parts.front();
  FOVEA_CHECK(first.bytes.empty() && first.masks.empty() && first.labels.empty(),
              "batches of training, of which inference joins none");
  data::Batch whole;
  whole.variables = first.variables;
  whole.image_shape = first.image_shape;
  whole.patches.channels = first.patches.channels;
  whole.patches.num_trees = first.patches.num_trees;
  whole.patches.fixed_length = first.patches.fixed_length;
  whole.patches.patch_size = first.patches.patch_size;
  whole.patches.dims = first.patches.dims;
  whole.patches.of_values = first.patches.of_values;
  whole.image_patches.patch_size = first.image_patches.patch_size;
  whole.image_patches.max_patches = first.image_patches.max_patches;
  const auto join = [&](const auto& member) {
    auto& values = member(whole);
    size_t size = 0;
    for (const auto* part : parts) size += member(*part).size();
    values.reserve(size);
    for (const auto* part : parts) {
      const auto& own = member(*part);
      values.insert(values.end(), own.begin(), own.end());
    }
  };
  join([](auto& batch) -> auto& { return batch.images; });
  join([](auto& batch) -> auto& { return batch.patches.tokens; });
  join([](auto& batch) -> auto& { return batch.patches.sizes; });
  join([](auto& batch) -> auto& { return batch.patches.centers; });
  join([](auto& batch) -> auto& { return batch.patches.padding; });
  join([](auto& batch) -> auto& { return batch.patches.trees; });
  join([](auto& batch) -> auto& { return batch.image_patches.values; });
  join([](auto& batch) -> auto& { return batch.image_patches.grids; });
  join([](auto& batch) -> auto& { return batch.weights; });
  whole.image_shape[0] = static_cast<int64_t>(whole.weights.size());
  whole.rows.resize(whole.weights.size());
  std::iota(whole.rows.begin(), whole.rows.end(), 0);
  whole.indices = whole.rows;
  return whole;
}

}  // namespace fovea::inference
