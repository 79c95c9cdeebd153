// What a served model takes and gives, in the protocol's words.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/inference/predictor.h"
#include "fovea/serve/blank_input.h"
#include "fovea/serve/protocol/infer_request.h"
#include "fovea/serve/serve_options.h"

namespace fovea::serve {

// The names of outputs.
inline constexpr std::string_view kScores = "scores";      // FP32 [N, K]: sum to 1
inline constexpr std::string_view kLabels = "labels";      // BYTES [N, 1]: name of the best class
inline constexpr std::string_view kFeatures = "features";  // FP32 [N, F]
inline constexpr std::string_view kMask = "mask";          // INT32 [N, sides of the input]: classes
inline constexpr std::string_view kVoxels = "voxels";      // INT64 [N, K]: pixels of each class
inline constexpr std::string_view kMaskPicture = "mask_picture";  // BYTES [N, 1]: PNG
inline constexpr std::string_view kAttention = "attention";       // BYTES [N, 1]: PNG

struct TensorDescription {
  std::string name;
  std::string datatype;
  std::vector<int64_t> shape;  // without the batch; -1: any
};

// A request that the model can answer.
struct Question {
  std::string id;
  std::vector<inference::Input> inputs;
  std::vector<OutputRequest> outputs;
  std::optional<int64_t> timeout_microseconds;

  bool wants(std::string_view output) const;
};

class ModelInterface {
 public:
  // Throws ConfigError: a model that answers no requests, such as of diffusion.
  ModelInterface(const inference::Predictor& predictor, const ServeOptions& options);

  // Throws StatusError (400): what was found and what the model takes.
  Question read(InferRequest&& request) const;

  // Answers to /v2/models/NAME and /v2/models/NAME/config.
  nlohmann::ordered_json metadata(const std::string& name) const;
  nlohmann::ordered_json config(const std::string& name) const;

  // For all that the model gives of `size` inputs of no meaning, to warm up with.
  Question blank_question(int64_t size) const;

 private:
  std::vector<inference::Input> images_of(const InputTensor& tensor) const;
  std::vector<inference::Input> tensors_of(const InputTensor& tensor) const;
  void check_batch(const InputTensor& tensor, size_t rank) const;
  std::vector<OutputRequest> outputs_of(const InferRequest& request) const;
  void check_output(const OutputRequest& output) const;

  ServeOptions options_;
  BlankInput blank_;
  bool takes_tensors_ = true;
  std::vector<TensorDescription> inputs_, outputs_, optional_outputs_;
};

inline constexpr const char* kModelVersion = "1";  // a name stands for one model

}  // namespace fovea::serve
