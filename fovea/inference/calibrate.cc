#include "fovea/inference/calibrate.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/loader_setup.h"
#include "fovea/train/evaluate/int8_calibration.h"
#include "fovea/train/evaluate/recipe_data.h"

namespace fovea::inference {
namespace {

template <class T>
void expect_read(std::vector<Outcome<T>> outcomes) {
  for (auto& one : outcomes) one.get();
}

// first: number of the first of them among `total`.
void ask(const Predictor& predictor, const std::vector<Input>& inputs, int64_t first,
         int64_t total) {
  switch (predictor.kind()) {
    case Kind::kClasses:
      if (predictor.loaded().model->num_classes() == 0) {
        return expect_read(predictor.features(inputs));
      }
      return expect_read(predictor.classes(inputs));
    case Kind::kMasks:
      return expect_read(predictor.masks(inputs));
    case Kind::kReconstructions:
      return expect_read(predictor.reconstructions(inputs, first));
    case Kind::kSamples:  // each at a time step of its own
      for (const auto& input : inputs) {
        const auto share = (static_cast<double>(first++) + 0.5) / static_cast<double>(total);
        expect_read(predictor.denoised({input}, {.noise_level = share}));
      }
      return;
  }
}

}  // namespace

std::vector<int64_t> evenly_among(int64_t size, int64_t most) {
  const auto count = std::min(size, most);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(i * size / count);
  return chosen;
}

train::Int8Ranges calibrate(const Predictor& predictor, const std::vector<Input>& inputs,
                            const CalibrationOptions& options) {
  const auto& loaded = predictor.loaded();
  train::Int8Calibration calibration(*loaded.model, *loaded.copies, options.skip);
  const auto total = static_cast<int64_t>(inputs.size());
  for (int64_t first = 0; first < total; first += options.batch_size) {
    const auto last = std::min(total, first + options.batch_size);
    ask(predictor, {inputs.begin() + first, inputs.begin() + last}, first, total);
    if (options.on_progress) options.on_progress(last, total);
  }
  return calibration.ranges(options.rule, total);
}

std::vector<Input> training_inputs(const train::Inference& inference, int64_t most) {
  if (!inference.config || !inference.config->data.train) {
    fail<ConfigError>(
        "no images to calibrate on: with these weights stands no recipe with data.train; expected "
        "image files or folders behind the model, or a run");
  }
  auto data = inference.config->data;
  data.tiling.reset();  // a predictor cuts samples itself
  const auto samples =
      data::open_loader_setup(data, *data.train, train::input_form_of(*inference.model),
                              /*is_training=*/false)
          .dataset;
  std::vector<Input> inputs;
  for (const auto i : evenly_among(samples->size(), most)) {
    inputs.push_back({SampleInput{samples, i}});
  }
  return inputs;
}

}  // namespace fovea::inference
