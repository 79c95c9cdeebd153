#include "fovea/checkpoint/tensor_files.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "fovea/checkpoint/assembly.h"
#include "fovea/checkpoint/byte_sum.h"
#include "fovea/checkpoint/durable.h"
#include "fovea/checkpoint/slice_reader.h"
#include "fovea/checkpoint/slices.h"
#include "fovea/core/error.h"
#include "fovea/files/safetensors.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

// Largest elements first, so that each tensor starts at a multiple of its element's size.
std::vector<std::string> file_order(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return tensors.at(a).element_size() > tensors.at(b).element_size();
  });
  return names;
}

std::vector<SafetensorsEntry> entries_of(const TensorMap& tensors) {
  std::vector<SafetensorsEntry> entries;
  for (const auto& name : file_order(tensors)) {
    entries.push_back(nn::to_entry(name, tensors.at(name)));
  }
  return entries;
}

int64_t elements_of(const std::vector<int64_t>& shape) { return c10::multiply_integers(shape); }

void check_inside(const std::string& name, const TensorEntry& tensor, const Slice& slice) {
  bool fits =
      slice.offset.size() == tensor.shape.size() && slice.size.size() == slice.offset.size();
  for (size_t d = 0; fits && d < tensor.shape.size(); ++d) {
    fits = slice.offset[d] >= 0 && slice.size[d] >= 0 && slice.offset[d] <= tensor.shape[d] &&
           slice.size[d] <= tensor.shape[d] - slice.offset[d];
  }
  if (!fits) fail<CheckpointError>("'{}': a slice that is not inside of the tensor", name);
}

// Whether `slice` or one behind it, in order of offsets, can reach into `first`.
bool may_overlap(const Slice& first, const Slice& slice) {
  return first.offset.empty() || slice.offset[0] < first.offset[0] + first.size[0];
}

// Slices that are inside of a tensor, have as many elements as it and overlap nowhere, cover it.
void check_cover(const std::string& name, const TensorEntry& tensor) {
  std::vector<const Slice*> slices;
  for (const auto& slice : tensor.slices) {
    check_inside(name, tensor, slice);
    if (elements_of(slice.size) > 0) slices.push_back(&slice);
  }
  std::sort(slices.begin(), slices.end(),
            [](const Slice* a, const Slice* b) { return a->offset < b->offset; });
  int64_t count = 0;
  for (auto one = slices.begin(); one != slices.end(); ++one) {
    count += elements_of((*one)->size);
    for (auto other = one + 1; other != slices.end() && may_overlap(**one, **other); ++other) {
      if (common_box(box_of(**one), box_of(**other))) {
        fail<CheckpointError>("'{}': two of its slices overlap, so that a part is missing", name);
      }
    }
  }
  if (count != elements_of(tensor.shape)) {
    fail<CheckpointError>("'{}': its slices have {} elements, expected {}; a part is missing", name,
                          count, elements_of(tensor.shape));
  }
}

// By key in the file, views of `tensors`; and where they lie, in the manifest.
TensorMap slices_of(const std::string& file_name, const TensorMap& tensors,
                    const std::map<std::string, kernels::TensorPart>& parts,
                    std::map<std::string, TensorEntry>& entries) {
  TensorMap slices;
  for (auto& [name, shape, box, values] : held_slices(tensors, parts)) {
    auto& entry = entries[name];
    entry.dtype = nn::to_entry(name, values).dtype;
    entry.shape = shape;
    slices[slice_key(name, shape, box)] = values;
    entry.slices.push_back({file_name, std::move(box.offset), std::move(box.size),
                            byte_sum(values.const_data_ptr(), values.nbytes())});
  }
  return slices;
}

void check_files(const Manifest& manifest, const std::map<std::string, SavedSlices>& by_file) {
  for (const auto& [name, unused] : by_file) {
    const auto is_it = [&name = name](const FileEntry& entry) { return entry.name == name; };
    if (std::none_of(manifest.files.begin(), manifest.files.end(), is_it)) {
      fail<CheckpointError>("{}: not among the manifest's files", name);
    }
  }
}

}  // namespace

void write_tensors(const fs::path& folder, const std::string& file_name, const std::string& part,
                   const TensorMap& tensors, Manifest& manifest,
                   const std::map<std::string, kernels::TensorPart>& parts) {
  const auto slices = slices_of(file_name, tensors, parts, manifest.tensors[part]);
  const auto entries = entries_of(slices);
  DurableFile file(folder / file_name);
  const auto preamble = safetensors_preamble(entries, {});
  file.write(preamble.data(), preamble.size());
  for (const auto& entry : entries) {
    file.write(entry.bytes.data(), entry.bytes.size());
  }
  const auto sha256 = file.finish();
  manifest.files.push_back(
      {file_name, file.bytes(), sha256, byte_sum(preamble.data(), preamble.size())});
}

uint64_t read_slices(const fs::path& folder, const std::string& part, const Manifest& manifest,
                     const SliceVisitor& visitor) {
  const auto found = manifest.tensors.find(part);
  if (found == manifest.tensors.end()) return 0;
  std::map<std::string, SavedSlices> by_file;
  for (const auto& [name, tensor] : found->second) {
    check_cover(name, tensor);
    for (const auto& slice : tensor.slices) {
      by_file[slice.file].emplace(slice_key(name, tensor.shape, box_of(slice)),
                                  SavedSlice{&tensor, &slice, name});
    }
  }
  check_files(manifest, by_file);
  uint64_t bytes = 0;
  for (const auto& entry : manifest.files) {
    const auto saved = by_file.find(entry.name);
    if (saved == by_file.end()) continue;
    std::optional<SliceReader> reader;  // of files that something is wanted of
    for (const auto& [key, slice] : saved->second) {
      const auto box = box_of(*slice.slice);
      if (!visitor.wants(slice.name, box)) continue;
      if (!reader) reader.emplace(folder, entry, saved->second);
      visitor.take(slice.name, box, reader->read(key));
    }
    if (reader) bytes += reader->bytes_read();
  }
  return bytes;
}

TensorMap read_tensors(const fs::path& folder, const std::string& part, const Manifest& manifest,
                       const std::map<std::string, WantedPart>& wanted) {
  const auto found = manifest.tensors.find(part);
  if (found == manifest.tensors.end()) return {};
  std::map<std::string, Assembly> targets;
  for (const auto& [name, tensor] : found->second) {
    const auto of = wanted.find(name);
    const bool has_part = of != wanted.end() && of->second.part.shape == tensor.shape;
    targets.emplace(name, Assembly(tensor, has_part ? &of->second : nullptr));
  }
  read_slices(folder, part, manifest,
              {.wants = [&](const std::string& name,
                            const Box& slice) { return targets.at(name).touches(slice); },
               .take = [&](const std::string& name, const Box& slice,
                           const at::Tensor& values) { targets.at(name).place(slice, values); }});
  TensorMap tensors;
  for (auto& [name, target] : targets) tensors[name] = target.take();
  return tensors;
}

}  // namespace fovea::checkpoint
