// The ends of the ranges of sizes: beyond what any model has, so that a slip or a made-up file is
// told at its key, and small enough that products of them fit 64 bits.
#pragma once

namespace fovea::models {

inline constexpr double kMaxDepth = 1024;        // published: up to 1000 (DeepNet)
inline constexpr double kMaxParallel = 64;       // published: 2
inline constexpr double kMaxWidth = 1 << 17;     // published: below 2^15, an MLP's below 2^17
inline constexpr double kMaxMlpRatio = 64;       // published: up to 8
inline constexpr double kMaxSide = 1 << 16;      // of images: what a JPEG can have
inline constexpr double kMaxClasses = 1 << 24;   // published: below 2^15 of labels, 2^18 of words
inline constexpr double kMaxSequence = 1 << 24;  // tokens

}  // namespace fovea::models
