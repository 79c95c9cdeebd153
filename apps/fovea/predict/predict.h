// What `fovea predict` does for each task.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/fovea/inference_options.h"
#include "apps/fovea/raw_image_options.h"
#include "fovea/data/datasets/input_files.h"
#include "fovea/inference/predictor.h"

namespace fovea::app {

// Of models that make images instead of looking at them.
struct SampleArguments {
  int64_t count = 64;
  uint64_t seed = 0;
  std::optional<int64_t> steps;        // none: those of the run's task.sampler, as the next ones
  std::optional<std::string> sampler;  // ddim or ddpm
  std::optional<double> guidance;
  std::string class_name;    // or its number; empty: all classes in turn
  double noise_level = 0.5;  // of inputs that are noised and denoised again
};

// Of images that do not fit into memory.
struct LargeArguments {
  bool is_forced = false;  // all inputs are read by region, whatever their size
  RawImageArguments raw;
  data::SlideScale scale;
};

struct PredictArguments {
  InferenceArguments inference;
  std::vector<std::string> inputs;
  std::string out;
  std::vector<std::string> intermediates;
  int64_t top = 5;
  SampleArguments samples;
  LargeArguments large;
  bool json = false;
};

// Labels and scores of image or volume files.
void predict_classes(const PredictArguments& arguments, const inference::Predictor& predictor);

// Of a masked autoencoder: for each input a PNG of input, masked input and reconstruction in the
// folder --out, and for volumes the reconstruction as NIfTI on the model's grid.
void predict_reconstructions(const PredictArguments& arguments,
                             const inference::Predictor& predictor);

// A mask of each image or volume file, into the folder --out (default: masks): STEM_mask.nii.gz
// with the affine and the orientation of the input, or STEM_mask.png (the class as the gray value);
// STEM_overlay.png (of a volume its three middle planes); and the voxels of each class on standard
// output.
void predict_masks(const PredictArguments& arguments, const inference::Predictor& predictor);

// Takes the inputs that are read by region out of arguments.inputs: slides, raw files, TIFF files
// with more pixels than an image in memory may have, or with large.is_forced all, folders and lists
// among them. Throws DataError: a folder with nothing to read, a damaged list.
std::vector<data::ModelInput> take_large_inputs(PredictArguments& arguments);
// Of each of them into the folder --out (default: masks): STEM_mask.tif, a tiled TIFF with the
// class of each pixel, STEM_overview.png, the mask over the image, and STEM_overview.html, the same
// with a legend of the classes; of a classifier also
// STEM_scores.npy [rows, columns, K] of its windows; of an autoencoder STEM_features.npy [rows,
// columns, F] alone. And the pixels of each class on standard output.
void predict_large(const PredictArguments& arguments, const std::vector<data::ModelInput>& inputs,
                   const inference::Predictor& predictor);

// Of a diffusion run: inputs to which noise is added and taken away again, for each a PNG of input,
// noisy input and result in the folder --out (default: denoised), and for volumes the result as
// NIfTI.
void predict_denoised(const PredictArguments& arguments, const inference::Predictor& predictor);

// What these options ask a predictor for. Throws ConfigError: a class that there is not.
inference::SampleOptions sample_options(const SampleArguments& samples,
                                        const train::Inference& inference);

// Samples of a diffusion run: one file each and a grid of all, in the folder --out.
void predict_samples(const PredictArguments& arguments, const inference::Predictor& predictor);

}  // namespace fovea::app
