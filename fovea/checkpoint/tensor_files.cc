#include "fovea/checkpoint/tensor_files.h"

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <optional>
#include <vector>

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

bool overlap(const Slice& a, const Slice& b) {
  for (size_t d = 0; d < a.size.size(); ++d) {
    if (a.offset[d] >= b.offset[d] + b.size[d] || b.offset[d] >= a.offset[d] + a.size[d]) {
      return false;
    }
  }
  return true;
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
      if (overlap(**one, **other)) {
        fail<CheckpointError>("'{}': two of its slices overlap, so that a part is missing", name);
      }
    }
  }
  if (count != elements_of(tensor.shape)) {
    fail<CheckpointError>("'{}': its slices have {} elements, expected {}; a part is missing", name,
                          count, elements_of(tensor.shape));
  }
}

// A tensor that is being put together: one box after the other holds these of the whole.
struct Target {
  at::Tensor tensor;
  std::vector<Box> boxes;

  Target(const TensorEntry& entry, const WantedPart* wanted) {
    boxes = wanted != nullptr
                ? boxes_of_part(wanted->part, elements_of(wanted->sizes))
                : std::vector<Box>{{std::vector<int64_t>(entry.shape.size(), 0), entry.shape}};
    sizes_ = wanted != nullptr ? wanted->sizes : entry.shape;
    dtype_ = nn::dtype_of_safetensors(entry.dtype);
    is_whole_ = wanted == nullptr;
  }

  bool touches(const Slice& slice) const {
    return std::any_of(boxes.begin(), boxes.end(),
                       [&](const Box& box) { return common_box(box, slice).has_value(); });
  }

  void make() {
    if (!tensor.defined()) tensor = at::empty(sizes_, dtype_);
  }

  void place(const Slice& slice, const at::Tensor& values) {
    if (is_whole_ && slice.size == sizes_) {
      tensor = values;
      return;
    }
    make();
    const auto flat = tensor.view({-1});
    int64_t begin = 0;
    for (const auto& box : boxes) {
      const auto count = elements_of(box.size);
      if (const auto both = common_box(box, slice)) {
        narrowed(flat.narrow(0, begin, count).view(box.size), *both, box.offset)
            .copy_(narrowed(values, *both, slice.offset));
      }
      begin += count;
    }
  }

 private:
  static std::optional<Box> common_box(const Box& box, const Slice& slice) {
    Box both = box;
    for (size_t d = 0; d < box.size.size(); ++d) {
      both.offset[d] = std::max(box.offset[d], slice.offset[d]);
      both.size[d] =
          std::min(box.offset[d] + box.size[d], slice.offset[d] + slice.size[d]) - both.offset[d];
      if (both.size[d] <= 0) return std::nullopt;
    }
    return both;
  }

  // x: of a box that starts at `offset`.
  static at::Tensor narrowed(at::Tensor x, const Box& to, const std::vector<int64_t>& offset) {
    for (size_t d = 0; d < offset.size(); ++d) {
      x = x.narrow(static_cast<int64_t>(d), to.offset[d] - offset[d], to.size[d]);
    }
    return x;
  }

  std::vector<int64_t> sizes_;
  at::ScalarType dtype_ = at::kFloat;
  bool is_whole_ = true;
};

// By key in the file, views of `tensors`; and where they lie, in the manifest.
TensorMap slices_of(const std::string& file_name, const TensorMap& tensors,
                    const std::map<std::string, kernels::TensorPart>& parts,
                    std::map<std::string, TensorEntry>& entries) {
  TensorMap slices;
  for (const auto& [name, tensor] : tensors) {
    const auto found = parts.find(name);
    const auto shape = found == parts.end() ? tensor.sizes().vec() : found->second.shape;
    auto boxes = found == parts.end()
                     ? std::vector<Box>{{std::vector<int64_t>(shape.size(), 0), shape}}
                     : boxes_of_part(found->second, tensor.numel());
    if (boxes.empty()) continue;  // another process has all of it
    auto& entry = entries[name];
    entry.dtype = nn::to_entry(name, tensor).dtype;
    entry.shape = shape;
    int64_t begin = 0;
    const auto flat = tensor.reshape({-1});
    for (auto& box : boxes) {
      const auto count = elements_of(box.size);
      slices[slice_key(name, shape, box)] = flat.narrow(0, begin, count).view(box.size);
      begin += count;
      const auto& slice = slices[slice_key(name, shape, box)];
      entry.slices.push_back({file_name, std::move(box.offset), std::move(box.size),
                              byte_sum(slice.const_data_ptr(), slice.nbytes())});
    }
  }
  return slices;
}

// Reads what the targets want of each file.
void read_slices(const fs::path& folder, const Manifest& manifest,
                 const std::map<std::string, std::map<std::string, SavedSlice>>& by_file,
                 std::map<std::string, Target>& targets) {
  size_t num_found = 0;
  for (const auto& entry : manifest.files) {
    const auto saved = by_file.find(entry.name);
    if (saved == by_file.end()) continue;
    num_found += 1;
    std::optional<SliceReader> reader;  // of files that something is wanted of
    for (const auto& [key, slice] : saved->second) {
      auto& target = targets.at(slice.name);
      if (!target.touches(*slice.slice)) continue;
      if (!reader) reader.emplace(folder, entry, saved->second);
      target.place(*slice.slice, reader->read(key));
    }
  }
  if (num_found == by_file.size()) return;
  for (const auto& [name, unused] : by_file) {
    const bool is_there = std::any_of(manifest.files.begin(), manifest.files.end(),
                                      [&](const FileEntry& entry) { return entry.name == name; });
    if (!is_there) fail<CheckpointError>("{}: not among the manifest's files", name);
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

TensorMap read_tensors(const fs::path& folder, const std::string& part, const Manifest& manifest,
                       const std::map<std::string, WantedPart>& wanted) {
  const auto found = manifest.tensors.find(part);
  if (found == manifest.tensors.end()) return {};
  std::map<std::string, std::map<std::string, SavedSlice>> by_file;  // by key
  std::map<std::string, Target> targets;
  for (const auto& [name, tensor] : found->second) {
    check_cover(name, tensor);
    for (const auto& slice : tensor.slices) {
      by_file[slice.file].emplace(slice_key(name, tensor.shape, {slice.offset, slice.size}),
                                  SavedSlice{&tensor, &slice, name});
    }
    const auto of = wanted.find(name);
    const bool has_part = of != wanted.end() && of->second.part.shape == tensor.shape;
    targets.emplace(name, Target(tensor, has_part ? &of->second : nullptr));
  }
  read_slices(folder, manifest, by_file, targets);
  TensorMap tensors;
  for (auto& [name, target] : targets) {
    target.make();  // nothing of it is wanted
    tensors[name] = std::move(target.tensor);
  }
  return tensors;
}

}  // namespace fovea::checkpoint
