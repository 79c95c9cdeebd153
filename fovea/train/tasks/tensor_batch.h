// From the loader's buffers to tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "fovea/data/batch.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

struct ComputeOptions {
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = c10::ScalarType::Float;  // of activations and products
};

// "float32", "bfloat16", "float16" or "auto", as device.dtype names them; auto: bfloat16 where
// `device` multiplies it in hardware. Throws ConfigError for another name, and for "int8", which is
// for inference: recipe/int8_layers.h.
c10::ScalarType dtype_from_name(const std::string& name, c10::Device device);
// "float32", "bfloat16" or "float16".
const char* dtype_name(c10::ScalarType dtype);

// Where the images and masks that adaptive patches were cut from are to lie.
enum class PatchedImages {
  kOnDevice,
  kWithLoader,  // as the loader made them: float32 images and int32 masks in the batch's memory
};

// What a step, or an evaluation, of the two needs.
PatchedImages images_for(const models::Model& model, const Task& task);

// Rows [begin, end) of `batch` on the compute device. On the CPU in float32 the images share the
// batch's memory, which must outlive them. Of a batch of bytes the device makes images: the
// loader's to the bit, those of mixup to one rounding.
TensorBatch to_tensors(data::Batch& batch, int64_t begin, int64_t end,
                       const ComputeOptions& compute,
                       PatchedImages images = PatchedImages::kOnDevice);

// batch.images on the device and in the dtype of what the model takes, wherever they lie.
at::Tensor images_on_device(const TensorBatch& batch);
// In that dtype, on the CPU.
at::Tensor images_on_host(const TensorBatch& batch);

}  // namespace fovea::train
