// Which implementation attention runs on, where there is a choice.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>

namespace fovea::kernels {

enum class AttentionChoice {
  kAuto,       // the fastest known for the device, dtype and number of tokens; on a GPU as measured
  kOwn,        // Fovea's kernels: self-attention on the CPU, at any number of tokens
  kFlash,      // FlashAttention; on the CPU libtorch's blocked kernel
  kCudnn,      // cuDNN's, on a GPU
  kEfficient,  // libtorch's memory-efficient one, on a GPU
  kMath,  // plain products with the whole matrix of probabilities: what the others are held against
};

// Chooses for this process, from now on, by recipe name: "auto", "own", "flash", "cudnn",
// "efficient", "math".
// What a choice has no kernel for (float64, masks, dropout) runs as with "auto". Throws ConfigError
// for an unknown name, and for one that the device has no kernels of.
void choose_attention(const std::string& name, const c10::Device& device);

AttentionChoice attention_choice();

// Whether attention of these is chosen as one whose gradients will be taken. runs_again: see
// attention().
bool gradients_are_to_come(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool runs_again);

}  // namespace fovea::kernels
