#include "fovea/data_tools/pack/pack.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/file_lock.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/parallel_for.h"
#include "fovea/core/write_error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/jpeg_encode.h"
#include "fovea/data/image/png.h"
#include "fovea/data/order/permutation.h"
#include "fovea/data/transforms/image/resize_image.h"
#include "fovea/data_tools/pack/pack_writers.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/checksum.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/mapped_file.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "plan.json";
constexpr int64_t kChunk = 32;  // samples in memory at once
constexpr int64_t kVolumeChunk = 4;

void check_options(const Dataset& dataset, const PackOptions& options) {
  if (options.to != "packed" && options.to != "wds") {
    fail<ConfigError>("to={}; expected packed or wds", options.to);
  }
  if (options.raw && options.to == "wds") {
    fail<ConfigError>("raw pixels cannot stand in a WebDataset; pack to packed, or without raw");
  }
  if (options.max_side < 0 || options.quality < 1 || options.quality > 100) {
    fail<ConfigError>("max_side={}, quality={}; expected 0 or more, and 1 to 100", options.max_side,
                      options.quality);
  }
  const bool has_volumes = dataset.form() == SampleForm::kVolume;
  if (!has_volumes && dataset.has_masks()) {
    fail<ConfigError>("images with masks cannot be packed; train from the files");
  }
  if (has_volumes && (options.to == "wds" || options.raw || options.max_side > 0)) {
    fail<ConfigError>(
        "volumes cannot stand in a WebDataset, and are neither shrunk nor stored as pixels; pack "
        "to packed without max_side and raw (compression: none leaves them as numbers)");
  }
  const VolumeSize& chunk = options.volumes.chunk;
  if (std::min({chunk.depth, chunk.height, chunk.width}) < 1) {
    fail<ConfigError>("chunks of {} x {} x {} voxels; expected sides from 1 on", chunk.depth,
                      chunk.height, chunk.width);
  }
  if (dataset.size() == 0) fail<ConfigError>("the data set is empty; there is nothing to pack");
}

// What a packing is of: it goes on only where this is equal.
std::string plan_of(const Dataset& dataset, const PackOptions& options) {
  std::string names;
  for (const auto& name : dataset.class_names()) names += name + "\n";
  for (int64_t i = 0; i < dataset.size(); ++i) names += dataset.describe(i) + "\n";
  nlohmann::ordered_json plan = {{"to", options.to},
                                 {"num_samples", dataset.size()},
                                 {"names", fmt::format("{:016x}", checksum(names))},
                                 {"max_side", options.max_side},
                                 {"quality", options.max_side > 0 ? options.quality : 0},
                                 {"raw", options.raw},
                                 {"shard_bytes", options.shard_bytes}};
  if (dataset.form() == SampleForm::kVolume) {
    const VolumeSize& chunk = options.volumes.chunk;
    plan["chunk"] = {chunk.depth, chunk.height, chunk.width};
    plan["compression"] = options.volumes.is_compressed ? "zstd" : "none";
  }
  if (options.shuffle_seed) plan["shuffle_seed"] = *options.shuffle_seed;
  return json_text(plan, 1) + "\n";
}

// Files that a killed call was writing: a final name, a dot and six characters.
void remove_temporaries(const fs::path& folder) {
  constexpr size_t kSuffix = 7;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= kSuffix || name[name.size() - kSuffix] != '.') continue;
    const std::string ending = fs::path(name.substr(0, name.size() - kSuffix)).extension();
    if (ending == ".fvp" || ending == ".tar" || ending == ".idx" || ending == ".json") {
      found.push_back(entry.path());
    }
  }
  for (const auto& path : found) fs::remove(path);
}

// Makes the folder ready; an error where it holds something else.
void open_folder(const PackOptions& options, const std::string& plan) {
  const auto path = fs::path(options.out) / kPlanFile;
  if (!is_there(path)) {
    if (!fs::is_empty(options.out)) {
      fail<ConfigError>("{}: the folder is not empty; choose a new one", printable(options.out));
    }
    write_file_atomic(path.string(), plan);
  } else if (read_file(path.string(), 1 << 20) != plan) {
    fail<ConfigError>(
        "{}: packing was begun with another data set or other options ({}); use those, or "
        "choose a new folder",
        printable(options.out), printable(path.string()));
  }
}

int32_t packed_label(int64_t label, const std::string& name) {
  constexpr int64_t kMaxLabel = int64_t{1} << 30;
  if (label >= kMaxLabel) fail<DataError>("{}: label {}", name, label);
  return static_cast<int32_t>(label);
}

void encode_volume(const Dataset& dataset, int64_t index, const PackOptions& options,
                   PackedSample& out) {
  Sample sample;  // a volume is large: no thread keeps one
  out.name = dataset.describe(index);
  dataset.read(index, sample);
  out.bytes = encode_packed_volume(sample.volume(), sample.mask, options.volumes);
  if (out.bytes.size() > std::numeric_limits<uint32_t>::max()) {
    fail<DataError>("{}: {} bytes; expected less than 4 GiB a sample: cut it into several",
                    out.name, out.bytes.size());
  }
  out.checked_bytes = packed_volume_head_bytes(std::span(out.bytes).first(kPackedVolumeHeaderBytes),
                                               out.bytes.size(), out.name);
  out.entry = {.bytes = static_cast<uint32_t>(out.bytes.size()),
               .label = packed_label(sample.label, out.name),
               .height = static_cast<uint32_t>(sample.volume().size.height),
               .width = static_cast<uint32_t>(sample.volume().size.width),
               .channels = 0,
               .encoding = PackedEncoding::kVolume};
  out.sums = {};
}

void encode(const Dataset& dataset, int64_t index, const PackOptions& options, PackedSample& out) {
  if (dataset.form() == SampleForm::kVolume) return encode_volume(dataset, index, options, out);
  thread_local Sample sample;
  thread_local Image small;
  thread_local ResizeScratch scratch;
  out.name = dataset.describe(index);
  const MappedReads reads;
  dataset.read(index, sample);
  std::span<const uint8_t> file;  // empty: pixels
  if (sample.is<EncodedImage>()) {
    file = sample.as<EncodedImage>().bytes;
    if (file.empty()) fail<DataError>("{}: the file is empty; expected an image", out.name);
    decode_image(file, out.name, sample.become<Image>());
  }
  decode(sample);
  const Image* image = &sample.image();
  const bool is_shrunk =
      options.max_side > 0 && std::max(image->height, image->width) > options.max_side;
  if (is_shrunk) {
    resize(ImageView(*image), with_longest_side(ImageView(*image).size(), options.max_side),
           Interpolation::kBicubic, small, scratch);
    image = &small;
  }
  if (options.raw) {
    out.bytes = image->pixels;
  } else if (is_shrunk) {
    encode_jpeg(ImageView(*image), static_cast<int>(options.quality), out.bytes);
  } else if (!file.empty()) {
    out.bytes.assign(file.begin(), file.end());
  } else {
    out.bytes = encode_png(*image);  // pixels without a file keep every bit
  }
  out.checked_bytes = 0;
  out.entry = {.bytes = static_cast<uint32_t>(out.bytes.size()),
               .label = packed_label(sample.label, out.name),
               .height = static_cast<uint32_t>(image->height),
               .width = static_cast<uint32_t>(image->width),
               .channels = static_cast<uint8_t>(image->channels),
               .encoding = options.raw ? PackedEncoding::kPixels : PackedEncoding::kFile};
  out.sums = {};
  out.sums.add(*image);
  reads.check([&] { return out.name; });
}

void write_samples(const Dataset& dataset, const PackOptions& options, ShardWriter& writer,
                   int64_t first) {
  const int64_t total = dataset.size();
  std::optional<Permutation> order;
  if (options.shuffle_seed) order.emplace(total, *options.shuffle_seed, 0);
  std::vector<PackedSample> chunk(
      static_cast<size_t>(dataset.form() == SampleForm::kVolume ? kVolumeChunk : kChunk));
  bool is_open = false;
  while (first < total) {
    const int64_t count = std::min(static_cast<int64_t>(chunk.size()), total - first);
    parallel_for(count, options.threads, [&](int64_t i) {
      const int64_t index = order ? (*order)(first + i) : first + i;
      encode(dataset, index, options, chunk[static_cast<size_t>(i)]);
    });
    for (int64_t i = 0; i < count; ++i) {
      const auto& sample = chunk[static_cast<size_t>(i)];
      if (is_open && writer.bytes_with(sample.bytes.size()) > options.shard_bytes) {
        writer.finish_shard();
        is_open = false;
      }
      if (!is_open) writer.begin_shard();
      is_open = true;
      writer.add(sample);
    }
    first += count;
    if (options.progress) options.progress(first, total);
  }
  if (is_open) writer.finish_shard();
}

}  // namespace

PackReport pack_dataset(const Dataset& dataset, const PackOptions& options) {
  check_options(dataset, options);
  std::error_code error;
  fs::create_directories(options.out, error);
  if (error) fail<WriteError>("{}: cannot be made ({})", printable(options.out), error.message());
  FileLock lock(options.out, O_RDONLY | O_DIRECTORY);
  if (!lock.try_lock()) {
    fail<ConfigError>("{}: another process packs into this folder, or it cannot be opened",
                      printable(options.out));
  }
  remove_temporaries(options.out);
  open_folder(options, plan_of(dataset, options));
  const auto writer =
      options.to == "wds" ? make_wds_writer(options.out) : make_packed_writer(options.out);
  const int64_t resumed = writer->resume();
  if (resumed > dataset.size()) {
    fail<DataError>("{}: holds {} samples, but the data set has {}; choose a new folder",
                    printable(options.out), resumed, dataset.size());
  }
  write_samples(dataset, options, *writer, resumed);
  writer->complete(dataset);
  return {dataset.size(), resumed, writer->num_shards(), writer->num_bytes()};
}

}  // namespace fovea::data
