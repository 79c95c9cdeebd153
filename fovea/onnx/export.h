// Models as ONNX files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/onnx/file.h"

namespace fovea::onnx {

enum class Part {
  kAll,      // images -> logits
  kEncoder,  // images -> tokens after the final norm, and the vector that the head would see
};

struct ExportOptions {
  Part part = Part::kAll;
  std::optional<int64_t> batch_size = {};  // none: any
  FileOptions file = {};
};

struct ExportReport {
  Graph graph;  // as it was written; its initialisers are the model's own values
  WrittenFile file;
};

// Writes `model` (in evaluation mode, with values) for inputs of input_spec().img_size, normalised
// as input_spec() says. Input: images [B, C, H, W] or [B, C, D, H, W]. Outputs: logits
// [B, num_classes] (segmentation: [B, num_classes, sides]; without a head: features [B, D]); of the
// encoder tokens [B, N, D] and, where it pools, features [B, D]. All float32. Known: ViT, T2T-ViT,
// UNETR and its encoder, the encoder of a MAE. Throws ConfigError naming any other model.
ExportReport export_model(models::Model& model, const std::string& path,
                          const ExportOptions& options = {});

}  // namespace fovea::onnx
