// Models as ONNX files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/onnx/file.h"
#include "fovea/onnx/operators.h"

namespace fovea::onnx {

enum class Part {
  kAll,      // images -> logits
  kEncoder,  // images -> tokens after the final norm, and the vector that the head would see
};

struct ExportOptions {
  Part part = Part::kAll;
  std::optional<int64_t> batch_size = {};  // none: any
  int64_t num_trees = 1;                   // of adaptive patches: 1, or a tree for each channel
  int64_t num_time_steps = 1000;           // of a diffusion model
  Int8Layers int8 = {};                    // see Note [QDQ]
  FileOptions file = {};                   // what each input is, is added to its metadata
};

struct ExportReport {
  Graph graph;  // as it was written; its initialisers are the model's own values
  WrittenFile file;
  int64_t num_int8 = 0;  // linear layers whose product is of 8-bit integers
};

// Writes `model` (in evaluation mode, with values) for inputs of input_spec().img_size, normalised
// as input_spec() says. Input: images [B, C, H, W] or [B, C, D, H, W]. Outputs: logits
// [B, num_classes] (segmentation: [B, num_classes, sides]; without a head: features [B, D]); of the
// encoder tokens [B, N, D] and, where it pools, features [B, D]. All float32.
//
// A model of adaptive patches takes what the tree gave: tokens [B, C, L, S], sizes [B, T, L],
// centers [B, T, L, d] and padding [B, T, L] (bool), as models::PatchInput; UNETR the images too,
// and with adaptive_map: image leaf_shares [B, cells, L], which part of each cell of the grid is
// the leaf's. Of SAP come logits [B, num_classes, L, S] of the patches. A masked autoencoder takes
// ids_keep [B, n] (int64), the patches that it sees, of adaptive ones with seen [B, n] (bool), and
// gives its reconstruction, or predictions [B, L, S * C]. A diffusion model takes noisy images,
// timesteps [B] (int64) and, where it has classes, classes [B] (int64; num_classes: none), and
// gives its prediction. Inputs that nothing depends on are left out. Throws ConfigError naming any
// other model.
ExportReport export_model(models::Model& model, const std::string& path,
                          const ExportOptions& options = {});

// Numbers to try an exported file on: a batch of `count` for each input, drawn from the seed, and
// what the model makes of them. Inputs that nothing depends on are among them.
struct Example {
  std::map<std::string, at::Tensor> inputs, outputs;
};
Example make_example(models::Model& model, const ExportOptions& options, int64_t count,
                     uint64_t seed);

}  // namespace fovea::onnx
