// The data of a recipe: what is trained and evaluated on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"
#include "fovea/models/model.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// A data set with the loader that reads it.
struct DatasetWithLoader {
  std::shared_ptr<const data::Dataset> dataset;
  std::unique_ptr<data::Loader> loader;
};

data::InputForm input_form_of(const models::Model& model);
data::InputForm input_form_of(const models::ModelConfig& config);

// What a loader is made of: data.train, shuffled by the run's seed, or data.val, in order and to
// the last sample, checked against the model and the task. shard: the part of each batch that this
// process reads. Errors: see the two functions below.
data::LoaderSetup open_training_setup(const TrainConfig& config,
                                      const data::BatchShare& share = {});
data::LoaderSetup open_validation_setup(const TrainConfig& config,
                                        const std::vector<std::string>& class_names,
                                        const data::BatchShare& share = {});
DatasetWithLoader make_loader(data::LoaderSetup setup);

// data.train, shuffled by the run's seed. Throws ConfigError where the section is missing or the
// model has not as many classes as the data; DataError where the data is not what it should be.
DatasetWithLoader open_training_data(const TrainConfig& config, const data::BatchShare& share = {});
// data.val, in order and to the last sample; empty where the recipe has none. class_names: those of
// the training data, with which those of data.val are matched by name; it may lack some of them.
// Throws ConfigError for a class that training did not have (of masks: where the two lists
// differ).
DatasetWithLoader open_validation_data(const TrainConfig& config,
                                       const std::vector<std::string>& class_names,
                                       const data::BatchShare& share = {});

}  // namespace fovea::train
