// A trained model that answers: loaded once, asked from any number of threads at the same time.
//
//   const inference::Predictor predictor("runs/flowers");
//   for (auto& one : predictor.classes(inference::file_inputs({"rose.jpg", "tulip.jpg"}))) {
//     if (one.error) ... else best(one.value->scores, 5) ...
//   }
//
// An answer is a function of the target and the input alone: neither who else asks at the same time
// nor how many threads decode changes a bit of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fovea/inference/explained_attention.h"
#include "fovea/inference/predict_input.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/diffusion/sampler.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

// What a model predicts.
enum class Kind { kClasses, kMasks, kReconstructions, kSamples };
const char* to_text(Kind kind);  // "classes"

// Scores that sum to 1.
struct Classes {
  at::Tensor scores;          // [K] float32 on the CPU; of a volume in tiles the mean of theirs
  at::Tensor of_slices = {};  // [D, K], of a model of slices of volumes; else undefined
};

struct ClassScore {
  int64_t label = 0;
  double score = 0;
};
// The best `top` of [K], best first.
std::vector<ClassScore> best(const at::Tensor& scores, int64_t top);

struct Mask {
  std::vector<int64_t> sides;   // of the input: [H, W] or [D, H, W]
  data::LabelMap classes;       // on its pixels
  std::vector<int64_t> voxels;  // [K], of each class
  data::Sample sample = {};     // what was read; empty: a tensor
};

// Pictures [C, H, W] or [C, D, H, W] float32 on the CPU, as the model sees its input.
struct Reconstruction {
  at::Tensor input, seen, image;  // masked patches of `seen` are NaN
  double loss = 0;                // mean over the masked patches
  int64_t num_masked = 0, num_patches = 0;
};

struct Denoised {
  at::Tensor input, noisy, image;  // as of a reconstruction
  int64_t timestep = 0;            // whose noise was added and taken away
  double mean_square_error = 0;    // of image to input
};

struct SampleOptions {
  int64_t count = 64;
  uint64_t seed = 0;
  std::optional<int64_t> steps = {};  // none: those of the run's task.sampler, as the next ones
  std::optional<std::string> sampler = {};
  std::optional<double> guidance = {};
  std::optional<int64_t> label = {};  // none: all classes in turn
  double noise_level = 0.5;           // of inputs that are noised and denoised again
};

struct Samples {
  at::Tensor images;  // [count, C, H, W] or [count, C, D, H, W] float32 on the CPU
  train::SampleRequest request;
};

struct Attention {
  ExplainedAttention attention;
  at::Tensor displayed;   // [C, sides] in [0, 1]: what the model saw
  std::string part = {};  // of the input, where that is not all of it: "tile 5 of 10, from [5, 0]"
};

struct Logits {
  at::Tensor logits;               // [B, ...] float32 on the CPU
  nn::NamedTensors intermediates;  // those that were asked for and are there
};

// Thread-safe: all that is asked is const, and nothing that it reads changes. Inputs are in the
// order of the answers; they are decoded in threads, and those of classes and features computed
// together. Throws ConfigError: a question that the model has no answer to, or inputs that are not
// what it takes, see open_inputs.
class Predictor {
 public:
  // See train::load_inference.
  explicit Predictor(const std::string& target, const train::InferenceOptions& options = {});
  explicit Predictor(train::Inference inference);

  Kind kind() const;
  // What was loaded: the model, its config, the names of its classes.
  const train::Inference& loaded() const { return *loaded_; }

  // The inputs decoded and transformed, so that classes, features and masks of them, which are the
  // same to the bit, take passes alone. They hold the memory of what the model sees: of a volume
  // all its tiles. Tensors are as they were.
  std::vector<Outcome<Input>> prepared(const std::vector<Input>& inputs) const;

  std::vector<Outcome<Classes>> classes(const std::vector<Input>& inputs) const;
  std::vector<Outcome<Mask>> masks(const std::vector<Input>& inputs) const;
  // first: number of the first input; its mask follows from that.
  std::vector<Outcome<Reconstruction>> reconstructions(const std::vector<Input>& inputs,
                                                       int64_t first = 0) const;
  std::vector<Outcome<Denoised>> denoised(const std::vector<Input>& inputs,
                                          const SampleOptions& options = {}) const;
  Samples samples(const SampleOptions& options = {}) const;
  // [F] float32 on the CPU: what a classifier would stand on. Of inputs that the model takes whole:
  // of a volume that it sees in tiles or windows ask about these, as samples or tensors.
  std::vector<Outcome<at::Tensor>> features(const std::vector<Input>& inputs) const;
  // noise_level: of a diffusion model, in what it sees.
  std::vector<Outcome<Attention>> attention(const std::vector<Input>& inputs,
                                            double noise_level = 0.5) const;
  // images: [B, C, H, W] or [B, C, D, H, W] float32, already normalised. wanted: names of
  // intermediates such as blocks.0.attn, or "all".
  Logits logits(const at::Tensor& images, const std::vector<std::string>& wanted = {}) const;

 private:
  using Loaded = std::shared_ptr<const train::Inference>;
  void expect(Kind kind) const;
  Loaded loaded_for(const std::vector<Input>& inputs) const;

  Loaded loaded_;
};

}  // namespace fovea::inference
