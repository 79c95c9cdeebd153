// What the loader hands out. data/ knows nothing of tensors: train/ wraps these buffers without a
// copy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fovea/data/adaptive/config.h"
#include "fovea/data/adaptive/tree.h"

namespace fovea::data {

// The rows of every global batch that one process has, which are contiguous: with a batch of R rows
// those from R * first / of to before R * last / of. With slots (parallel.slots), `of` is their
// number.
struct BatchShare {
  int64_t first = 0;
  int64_t last = 1;
  int64_t of = 1;

  // Of rank `rank` of `ranks`. slots: parts of a batch that are never divided, at least one a rank;
  // 0: a rank has a part of any size.
  static BatchShare of_rank(int64_t rank, int64_t ranks, int64_t slots = 0) {
    const int64_t parts = slots > 0 ? slots : ranks;
    return {parts * rank / ranks, parts * (rank + 1) / ranks, parts};
  }

  int64_t begin(int64_t rows) const { return rows * first / of; }
  int64_t end(int64_t rows) const { return rows * last / of; }
  int64_t rows(int64_t of_batch) const { return end(of_batch) - begin(of_batch); }
  // The most that a share of as many parts may have.
  int64_t most_rows(int64_t of_batch) const { return (of_batch * (last - first) + of - 1) / of; }
  bool is_whole() const { return first == 0 && last == of; }
  bool operator==(const BatchShare&) const = default;
};

// What the images of a batch are made of: normalised floats, or the bytes before `normalize`, a
// quarter of the memory, for a device that normalises.
enum class PixelType { kFloat32, kUint8 };

// Adaptive patches of a batch (adaptive/adaptive_patching.h): C channels, T trees a sample, L
// patches, p patch size, d sides of a sample.
struct AdaptivePatches {
  int64_t channels = 0;          // 0: the batch has no patches
  int64_t num_trees = 0;         // T
  int64_t fixed_length = 0;      // L
  int64_t patch_size = 0;        // p
  int64_t dims = 2;              // d
  std::vector<float> tokens;     // [B, C, L, p^d]
  std::vector<float> sizes;      // [B, T, L] longest side of each leaf, in pixels
  std::vector<float> centers;    // [B, T, L, d] x, y(, z), in pixels
  std::vector<uint8_t> padding;  // [B, T, L] 1: no leaf
  std::vector<int32_t> labels;   // [B, L, p^d] classes along the first tree; empty: no masks
  std::vector<PatchTree> trees;  // [B * T]
  // How parts of the samples would be cut: volumes are by the values in Batch::images. Nothing:
  // images, which were cut by their bytes.
  std::optional<AdaptivePatchingConfig> of_values;

  int64_t token_size() const {
    return dims == 3 ? patch_size * patch_size * patch_size : patch_size * patch_size;
  }
};

// Images of mixed sizes as patches, for a model that takes them packed (models::PackedImages): C
// channels, P patch size, M patches that there is room for in each row.
struct ImagePatches {
  int64_t patch_size = 0;   // P; 0: the batch has images of one size
  int64_t max_patches = 0;  // M
  // [B, M, C * P * P], values of a patch in the order (C, P, P). Of each image its patches, row by
  // row; what is behind them holds nothing.
  std::vector<float> values;
  std::vector<int64_t> grids;  // [B, 2] rows and columns of patches
};

// What pixels of one row of bytes are mixed with, once they are floats: cutmix takes the box from
// the partner; else lam * own + (1 - lam) * partner.
struct ByteMixup {
  int64_t partner = 0;  // row of the same batch
  int64_t top = 0, left = 0, height = 0, width = 0;
  float lam = 1;  // 1: as it is, but for the box

  bool is_mixed() const { return lam != 1.0f || height * width > 0; }
};

// What is left to do with a batch of bytes: (byte / 255 - mean) / std, then mixing.
struct ByteSteps {
  std::vector<float> mean, std;   // [C]
  std::vector<ByteMixup> mixups;  // [B]; empty: nothing is mixed
};

struct Batch {
  // [C] names of the channels; empty: they have none.
  std::vector<std::string> variables;
  std::vector<float> images;         // [B, C, H, W] or [B, C, D, H, W], normalised, row-major
  std::vector<uint8_t> bytes;        // the same in place of `images`, with PixelType::kUint8
  ByteSteps byte_steps;              // of `bytes`; rows of weight 0 are black, not zeros
  std::vector<int64_t> image_shape;  // with B in front
  std::vector<int32_t> masks;        // [B, H, W] or [B, D, H, W] classes; empty: there are none
  AdaptivePatches patches;           // with data.adaptive_patching
  ImagePatches image_patches;        // in place of images, whose H and W then are 0
  std::vector<int64_t> labels;       // [B]; empty where the data set has none
  std::vector<float> targets;        // [B, num_classes] soft targets, where images are mixed
  std::vector<int64_t> indices;      // [B] index of each sample in the data set
  std::vector<int64_t> rows;         // [B] row of each sample in the global batch
  std::vector<float> weights;        // [B] 1; 0: counts for nothing, index -1, zeros, label 0
  int64_t set = 0;                   // which of several sets the samples come from
  int64_t position = 0;  // samples handed out before this batch, over all epochs (global)
  int64_t epoch = 0;
  int64_t global_size = 0;  // rows of the whole batch, over all shares, without padding
  BatchShare share = {};

  // Rows of this share, with padding.
  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

}  // namespace fovea::data
