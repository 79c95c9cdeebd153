// A sequence of patches in a file, written and read a token at a time: what a model is given, and
// what brings its predictions back into the image.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "fovea/data/adaptive/adaptive_patching.h"

namespace fovea::data {

// A safetensors file with
//   tokens        F32 [C, L, p * p]
//   sizes         F32 [T, L]       longest side of the leaf, 0 in the padding
//   centers       F32 [T, L, 2]    x, y from the outer corner, -1 in the padding
//   padding_mask  U8  [T, L]
//   leaves        I32 [T, L, 4]    y, x, height, width; zeros in the padding
// and as metadata the image's height and width, patch_size and upstream_compatible.
class SequenceFileWriter {
 public:
  // Throws WriteError, as the others do.
  SequenceFileWriter(const std::string& path, const RegionFormat& image,
                     const AdaptivePatchingConfig& config);
  ~SequenceFileWriter();
  SequenceFileWriter(const SequenceFileWriter&) = delete;
  SequenceFileWriter& operator=(const SequenceFileWriter&) = delete;

  void write_token(int64_t channel, int64_t leaf, std::span<const float> token);
  // The rest, and the file's name; without it nothing stays behind.
  void finish(const PatchSequence& sequence);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What is needed to go back: the leaves of each tree without their nodes, no tokens. Throws
// DataError: not such a file, leaves that do not make up the image.
struct SavedSequence {
  PatchSequence sequence;
  bool upstream_compatible = false;
};
SavedSequence load_sequence(const std::string& path);

struct PredictionOptions {
  std::string tensor = {};  // of the file of values; empty: its only one
  std::string compression = "deflate";
  OutOfCoreOptions memory = {};
};

// Values for the patches of a saved sequence, brought back over the whole image: a tiled TIFF as
// large as the image, written from above to below in bounded memory. `values` is a safetensors file
// with a tensor of one of these forms, L the fixed length of the sequence:
//   F32 [C, L, p * p]           every token resampled to its leaf, as tokens_to_volume
//   F32 [L, C]                  C values for each patch, the same over all of its leaf
//   U8, I32 or I64 [L, p * p]   classes of the pixels of each patch: the nearest one counts
//   U8, I32 or I64 [L]          a class for each patch
// p may differ from the sequence's. Floats give C channels of float32, classes uint8 (from U8) or
// int32. Along a sequence of several trees only [C, L, p * p] with a channel for each can go back.
// Throws DataError: another form, a class beyond int32; WriteError: the disk.
void write_prediction(const std::string& sequence, const std::string& values,
                      const std::string& tiff, const PredictionOptions& options = {});

}  // namespace fovea::data
