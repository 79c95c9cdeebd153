// Samples as a loaded model takes them.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/core/parallel_for.h"
#include "fovea/data/batch/batch_filler.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/models/variables.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::train {
namespace {

// The run's transforms for samples of this form: those of slices of volumes may be none at all, or
// such as images have too.
data::SampleTransforms transforms_for(const Inference& inference, data::SampleForm form) {
  using Images = std::shared_ptr<const data::TransformPipeline>;
  const bool are_of_images = std::holds_alternative<Images>(inference.transforms);
  const bool is_slice = form == data::SampleForm::kVolume && inference.takes_slices();
  if (!are_of_images || !is_slice) return inference.transforms;
  if (!inference.config->data.val) {
    fail<ConfigError>(
        "the run has no data.val, whose transforms would say what is done to slices of new files; "
        "give its config.yaml a section data.val");
  }
  return data::make_transforms(inference.transform_list, form, inference.input.in_chans);
}

// What the samples' rows are made by.
data::BatchFiller filler_of(const Inference& inference,
                            const std::shared_ptr<const data::Dataset>& samples, int64_t first) {
  models::check_channels(*inference.model, inference.channels, samples->describe(first));
  data::LoaderOptions options{.spatial_dims = inference.input.spatial_dims,
                              .packed_patch_size = inference.input.packed_patch_size};
  if (inference.model->takes_patches() && inference.config &&
      inference.config->data.adaptive_patching) {
    options.patching = {.config = *inference.config->data.adaptive_patching, .is_random = false};
  }
  return {samples, transforms_for(inference, samples->form()), first, options};
}

// Row i is that of indices[i]; each thread takes rows that follow each other, with buffers of its
// own. -> why rows cannot be read
std::vector<std::optional<DataError>> fill_rows(const data::BatchFiller& filler,
                                                const data::Dataset& samples,
                                                std::span<const int64_t> indices,
                                                data::Batch& batch) {
  const auto count = static_cast<int64_t>(indices.size());
  std::vector<std::optional<DataError>> errors(indices.size());
  const int64_t threads = std::clamp<int64_t>(at::get_num_threads(), 1, count);
  parallel_for(threads, threads, [&](int64_t thread) {
    data::BatchScratch scratch;
    for (int64_t row = count * thread / threads; row < count * (thread + 1) / threads; ++row) {
      const auto index = indices[static_cast<size_t>(row)];
      try {
        filler.fill(batch, row, index, data::augmentation_stream(0, 0, index), scratch);
      } catch (const DataError& error) {
        errors[static_cast<size_t>(row)].emplace(data::named_message(samples, index, error));
      }
    }
  });
  return errors;
}

// A batch of these samples. errors: for each; the batch is whole where there is none.
data::Batch read_batch(const Inference& inference,
                       const std::shared_ptr<const data::Dataset>& samples,
                       std::span<const int64_t> indices,
                       std::vector<std::optional<DataError>>& errors) {
  const auto filler = filler_of(inference, samples, indices.front());
  data::Batch batch;
  filler.open(batch, static_cast<int64_t>(indices.size()));
  batch.indices.assign(indices.begin(), indices.end());
  batch.weights.assign(indices.size(), 1.0f);
  for (size_t row = 0; row < indices.size(); ++row) batch.rows.push_back(static_cast<int64_t>(row));
  errors = fill_rows(filler, *samples, indices, batch);
  return batch;
}

// The same, where all have to be read.
data::Batch read_batch(const Inference& inference,
                       const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                       int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  std::vector<std::optional<DataError>> errors;
  auto batch = read_batch(inference, samples, indices, errors);
  for (const auto& error : errors) {
    if (error) throw *error;
  }
  return batch;
}

// The image of a batch of one, put together from its patches: [1, C, H, W].
at::Tensor only_image(data::Batch& batch) {
  FOVEA_CHECK(batch.size() == 1, "{} packed images, which have no common size; expected one",
              batch.size());
  const auto packed = to_tensors(batch, 0, 1, {}).packed;
  const auto [rows, columns] = packed.grids.front();
  const auto channels = batch.image_shape[1], side = batch.image_patches.patch_size;
  return packed.patches.view({rows, columns, channels, side, side})
      .permute({2, 0, 3, 1, 4})
      .reshape({1, channels, rows * side, columns * side});
}

}  // namespace

bool ReadSamples::are_read() const {
  return std::none_of(errors.begin(), errors.end(), [](const auto& error) { return error; });
}

ReadSamples Inference::read(const std::shared_ptr<const data::Dataset>& samples,
                            std::span<const int64_t> indices) const {
  ReadSamples result;
  auto batch = std::make_shared<PreparedBatch>();
  try {
    batch->buffers = read_batch(*this, samples, indices, result.errors);
  } catch (const DataError& error) {  // of the first one, which says what size the rows have
    result.errors.assign(indices.size(), std::nullopt);
    result.errors.front() = error;
  }
  if (!result.are_read()) return result;
  batch->tensors = on_device(batch->buffers);
  result.batch = std::move(batch);
  return result;
}

at::Tensor Inference::preprocess(const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                                 int64_t count) const {
  auto batch = read_batch(*this, samples, first, count);
  if (model->takes_packed()) return only_image(batch);
  return at::from_blob(batch.images.data(), batch.image_shape, at::kFloat).clone();
}

data::Batch Inference::fill(const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                            int64_t count) const {
  return read_batch(*this, samples, first, count);
}

TensorBatch Inference::on_device(data::Batch& batch) const {
  auto tensors = to_tensors(batch, 0, batch.size(), compute);
  tensors.variables = channels;
  return tensors;
}

PreparedBatch Inference::prepare(const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                                 int64_t count) const {
  PreparedBatch prepared;
  prepared.buffers = fill(samples, first, count);
  prepared.tensors = on_device(prepared.buffers);
  return prepared;
}

}  // namespace fovea::train
