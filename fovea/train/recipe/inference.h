// A trained model with the preprocessing its weights expect: what predict, explain and eval start
// from.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/dataset.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/kernels/fitting_parts.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/models/model.h"
#include "fovea/nn/recorded_forward.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

struct InferenceOptions {
  // A preset, a recipe or a run folder: the model, for weights that do not say of which they are.
  std::string model = {};
  // A file that models::load_weights reads, a run folder or a checkpoint, or a repository of the
  // hub (hub/hub_name.h): other weights than those of a run or recipe, or those of a preset.
  std::string weights = {};
  std::string checkpoint =
      "final";  // of a run folder: "final" (weights.safetensors), "best" or "latest"
  std::vector<std::string> overrides = {};  // a.b=c, of a run's config
  // What the channels of the inputs are, of a model with variables; empty: all of them, in its
  // order.
  std::vector<std::string> variables = {};
  std::string class_names = {};  // a file with them; see weights_metadata.h
  std::string device = "auto";
  std::string dtype = "float32";
  // With dtype int8; empty: as the config has it. See Int8Config; ranges alone mean calibrated.
  std::vector<std::string> int8_skip = {};
  std::string int8_activations = {};
  std::string int8_ranges = {};
  std::string int8_rest = {};
};

// Inputs of one pass, at most.
constexpr int64_t kPassSize = 32;

// A batch with the buffers that its tensors look at.
struct PreparedBatch {
  data::Batch buffers;
  TensorBatch tensors;
};

// Samples that were read together, or why some of them cannot be: then there is no batch.
struct ReadSamples {
  std::shared_ptr<PreparedBatch> batch = {};          // in one place: its tensors point into it
  std::vector<std::optional<DataError>> errors = {};  // for each sample

  bool are_read() const;
};

struct Inference {
  models::ModelPtr model;                         // in evaluation mode, on compute.device
  std::shared_ptr<kernels::WeightCopies> copies;  // of its weights, so that no pass casts them
  std::shared_ptr<nn::RecordedForward> recorded;  // passes of it over images
  // Of what is asked about together; how many are in a pass changes no bit.
  std::shared_ptr<kernels::FittingParts> passes;
  // What is done to a sample, as the model was trained; `transforms` is the same, made for the
  // samples that the model takes.
  std::vector<data::AnyTransformConfig> transform_list;
  data::SampleTransforms transforms;
  data::InputForm input;
  std::vector<std::string> channels;     // of inputs; see models::ModelInput
  std::vector<std::string> class_names;  // empty where nobody names them
  std::optional<TrainConfig> config;     // of the run, where there was one
  std::string weights;                   // their file or folder; empty: step-0 weights
  ComputeOptions compute;

  // "Sneaker", or "7" where classes have no names.
  std::string class_name(int64_t label) const;
  // What the run evaluated on, or else was trained on: new files are read as it was.
  std::optional<data::DataSectionConfig> data_section() const;
  // Image or volume files as a data set; see data::open_input_files.
  std::shared_ptr<const data::Dataset> open_files(const std::vector<std::string>& inputs) const;
  // Volumes cut as data.tiling cut those that the model was trained on, all of each, without
  // overlap; nullptr: images, or a run without tiles. whole_slices: of slices as large as the
  // volumes, which a segmenter sees in windows of its own; nullptr too where tiles are no slices.
  std::shared_ptr<const data::TiledDataset> cut(const std::shared_ptr<const data::Dataset>& samples,
                                                bool whole_slices = false) const;
  // Whether cut() gives something, of samples of this form.
  bool cuts(data::SampleForm form) const;
  // Whether the model was trained on slices of volumes.
  bool takes_slices() const;
  // Samples [first, first + count) as the model takes them. -> [count, C, H, W] or
  // [count, C, D, H, W] float32. Throws ConfigError: images for a model of volumes;
  // DataError. Of a model of packed images one at a time, in its own size.
  at::Tensor preprocess(const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                        int64_t count) const;
  // The same as the model takes them, adaptive patches or packed ones among them, on the host; and
  // these on the compute device, which on the CPU is in the batch's own memory.
  data::Batch fill(const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                   int64_t count) const;
  TensorBatch on_device(data::Batch& batch) const;
  // Both.
  PreparedBatch prepare(const std::shared_ptr<const data::Dataset>& samples, int64_t first,
                        int64_t count) const;
  // The same of any samples, decoded in threads; each that cannot be read is named. Throws
  // ConfigError.
  ReadSamples read(const std::shared_ptr<const data::Dataset>& samples,
                   std::span<const int64_t> indices) const;

  // The same model for inputs of these channels, of a model with variables. Throws ConfigError.
  Inference with_channels(const std::vector<std::string>& channels) const;
};

// target: a run folder (of phases: the last that has begun); a recipe, of which a model is enough,
// for the model before its first step; a weights file of a run (it carries its config and class
// names); any weights that models::load_weights reads, with options.model; or a preset alone, with
// options.weights or step-0 weights; or a repository of the hub, or one of timm's names with its
// tag (vit_small_patch16_224.augreg_in21k), whose config.json says which model it is. Empty:
// options.model and options.weights say it all. Of a preset the classes, channels and the side of
// images follow from the weights. Throws ConfigError, DataError or CheckpointError: weights of
// another model, also where only its config tells it.
Inference load_inference(const std::string& target, const InferenceOptions& options = {});

// Writes weights with timm's names; the file's metadata carries the config and the class names, so
// that it can be used on its own.
void save_inference_weights(const std::string& path, const models::Model& model,
                            const TrainConfig& config, const std::vector<std::string>& class_names);

}  // namespace fovea::train
