#include "fovea/data/archive/packed_format.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/labels.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/checksum.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/little_endian.h"

namespace fovea::data {
namespace {

constexpr std::string_view kMagic = "FOVEAPK\n";
constexpr std::string_view kManifestFormat = "fovea packed";
constexpr int kMaxManifestDepth = 4;
constexpr int64_t kMaxCount = int64_t{1} << 40;

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Footer {
  uint64_t index_offset = 0, samples = 0, name_bytes = 0, checksum = 0, file_bytes = 0,
           first_sample = 0;
};

Footer read_footer(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() != kPackedFooterBytes || text_of(bytes.last(kMagic.size())) != kMagic) {
    fail<DataError>("{}: not a packed shard, or truncated: its end is not there; pack it again",
                    name);
  }
  ByteReader numbers(bytes, name);
  Footer footer;
  for (auto* field : {&footer.index_offset, &footer.samples, &footer.name_bytes, &footer.checksum,
                      &footer.file_bytes, &footer.first_sample}) {
    *field = numbers.number<uint64_t>();
  }
  if (const auto version = numbers.number<uint32_t>(); version != kPackedVersion) {
    fail<DataError>("{}: version {} of the packed format; expected {}; pack the data set again",
                    name, version, kPackedVersion);
  }
  return footer;
}

void check_entry(const PackedEntry& entry, uint64_t index_offset, const std::string& name,
                 size_t i) {
  if (entry.bytes == 0 || entry.offset < kPackedHeaderBytes || entry.offset > index_offset ||
      entry.bytes > index_offset - entry.offset ||
      (entry.encoding != PackedEncoding::kVolume && entry.bytes > kMaxImageFileBytes)) {
    fail<DataError>("{}: sample {} has {} bytes from byte {} on, outside the shard", name, i,
                    entry.bytes, entry.offset);
  }
  if (entry.encoding > PackedEncoding::kVolume || entry.label < -1) {
    fail<DataError>("{}: sample {} has encoding {} and label {}; expected 0 to 2, and -1 or more",
                    name, i, static_cast<int>(entry.encoding), entry.label);
  }
  if (entry.encoding != PackedEncoding::kPixels) return;
  const bool has_channels = entry.channels == 1 || entry.channels == 3;
  const uint64_t pixels = uint64_t{entry.height} * entry.width;
  if (!has_channels || pixels == 0 || pixels > static_cast<uint64_t>(kMaxImagePixels) ||
      pixels * entry.channels != entry.bytes) {
    fail<DataError>("{}: sample {} has {} bytes for {} x {} pixels of {} channels", name, i,
                    entry.bytes, entry.width, entry.height, entry.channels);
  }
}

void read_sums(ByteReader& numbers, PixelSums& sums) {
  for (auto* field : {&sums.gray_pixels, &sums.gray_sum, &sums.gray_squares, &sums.rgb_pixels}) {
    *field = numbers.number<uint64_t>();
  }
  for (auto& sum : sums.rgb_sum) sum = numbers.number<uint64_t>();
  for (auto& squares : sums.rgb_squares) squares = numbers.number<uint64_t>();
}

}  // namespace

void PixelSums::add(const Image& image) {
  const size_t channels = static_cast<size_t>(image.channels);
  const size_t pixels = image.pixels.size() / std::max<size_t>(channels, 1);
  uint64_t sum[3] = {}, squares[3] = {};
  // Rows of 32-bit sums: 2^16 bytes of squares fit.
  constexpr size_t kBlock = size_t{1} << 15;
  for (size_t first = 0; first < pixels; first += kBlock) {
    const size_t last = std::min(pixels, first + kBlock);
    for (size_t c = 0; c < channels; ++c) {
      uint32_t block_sum = 0, block_squares = 0;
      for (size_t i = first; i < last; ++i) {
        const uint32_t value = image.pixels[i * channels + c];
        block_sum += value;
        block_squares += value * value;
      }
      sum[c] += block_sum;
      squares[c] += block_squares;
    }
  }
  if (channels == 1) {
    gray_pixels += pixels;
    gray_sum += sum[0];
    gray_squares += squares[0];
    return;
  }
  rgb_pixels += pixels;
  for (size_t c = 0; c < 3; ++c) {
    rgb_sum[c] += sum[c];
    rgb_squares[c] += squares[c];
  }
}

void PixelSums::add(const PixelSums& other) {
  gray_pixels += other.gray_pixels;
  gray_sum += other.gray_sum;
  gray_squares += other.gray_squares;
  rgb_pixels += other.rgb_pixels;
  for (size_t c = 0; c < 3; ++c) {
    rgb_sum[c] += other.rgb_sum[c];
    rgb_squares[c] += other.rgb_squares[c];
  }
}

std::vector<double> PixelSums::mean() const {
  const auto pixels = static_cast<double>(gray_pixels + rgb_pixels);
  if (pixels == 0) return {};
  if (rgb_pixels == 0) return {static_cast<double>(gray_sum) / pixels / 255};
  std::vector<double> mean;
  for (const uint64_t sum : rgb_sum) {
    mean.push_back(static_cast<double>(gray_sum + sum) / pixels / 255);
  }
  return mean;
}

std::vector<double> PixelSums::std() const {
  const auto pixels = static_cast<double>(gray_pixels + rgb_pixels);
  std::vector<double> std = mean();
  for (size_t c = 0; c < std.size(); ++c) {
    const uint64_t squares = gray_squares + (rgb_pixels == 0 ? 0 : rgb_squares[c]);
    const double second = static_cast<double>(squares) / pixels / (255.0 * 255.0);
    std[c] = std::sqrt(std::max(0.0, second - std[c] * std[c]));
  }
  return std;
}

std::string_view PackedShardIndex::name(int64_t sample) const {
  const auto i = static_cast<size_t>(sample);
  const uint32_t first = i == 0 ? 0 : entries[i - 1].name_end;
  return std::string_view(names).substr(first, entries[i].name_end - first);
}

std::string format_packed_header(uint64_t first_sample) {
  std::string bytes(kMagic);
  put(bytes, kPackedVersion);
  put(bytes, static_cast<uint32_t>(kPackedHeaderBytes));
  put(bytes, first_sample);
  put(bytes, uint64_t{0});
  return bytes;
}

std::string format_packed_tail(const PackedShardIndex& index, uint64_t index_offset) {
  std::string bytes;
  for (const auto& entry : index.entries) {
    put(bytes, entry.offset);
    put(bytes, entry.checksum);
    put(bytes, entry.bytes);
    put(bytes, entry.label);
    put(bytes, entry.height);
    put(bytes, entry.width);
    put(bytes, entry.name_end);
    put(bytes, entry.channels);
    put(bytes, static_cast<uint8_t>(entry.encoding));
    put(bytes, uint16_t{0});
  }
  bytes += index.names;
  const auto& sums = index.sums;
  for (const uint64_t value :
       {sums.gray_pixels, sums.gray_sum, sums.gray_squares, sums.rgb_pixels}) {
    put(bytes, value);
  }
  for (const uint64_t value : sums.rgb_sum) put(bytes, value);
  for (const uint64_t value : sums.rgb_squares) put(bytes, value);
  const uint64_t tail_checksum = checksum(bytes);
  const uint64_t file_bytes = index_offset + bytes.size() + kPackedFooterBytes;
  for (const uint64_t value :
       {index_offset, uint64_t{index.entries.size()}, uint64_t{index.names.size()}, tail_checksum,
        file_bytes, index.first_sample}) {
    put(bytes, value);
  }
  put(bytes, kPackedVersion);
  put(bytes, uint32_t{0});
  return bytes += kMagic;
}

uint64_t packed_tail_bytes(std::span<const uint8_t> footer_bytes, uint64_t file_bytes,
                           const std::string& name) {
  const Footer footer = read_footer(footer_bytes, name);
  constexpr uint64_t kMaxSamples = std::numeric_limits<uint32_t>::max();
  const bool is_sane = footer.samples > 0 && footer.samples <= kMaxSamples &&
                       footer.name_bytes <= std::numeric_limits<uint32_t>::max() &&
                       footer.file_bytes == file_bytes && footer.index_offset <= file_bytes &&
                       footer.index_offset >= kPackedHeaderBytes;
  const uint64_t tail = footer.samples * kPackedEntryBytes + footer.name_bytes + kPackedSumsBytes +
                        kPackedFooterBytes;
  if (!is_sane || tail != file_bytes - footer.index_offset) {
    fail<DataError>(
        "{}: its sizes do not fit together ({} bytes, {} samples, index at byte {}); it is "
        "damaged: remove it and pack again",
        name, file_bytes, footer.samples, footer.index_offset);
  }
  return tail;
}

PackedShardIndex parse_packed_tail(std::span<const uint8_t> header, std::span<const uint8_t> tail,
                                   uint64_t file_bytes, const std::string& name) {
  if (header.size() != kPackedHeaderBytes || text_of(header.first(kMagic.size())) != kMagic) {
    fail<DataError>("{}: not a packed shard: its first bytes are others", name);
  }
  if (tail.size() < kPackedFooterBytes) fail<DataError>("{}: the index is truncated", name);
  const auto last = tail.last(kPackedFooterBytes);
  if (packed_tail_bytes(last, file_bytes, name) != tail.size()) {
    fail<DataError>("{}: the index is truncated", name);
  }
  const Footer footer = read_footer(last, name);
  const auto body = tail.first(tail.size() - kPackedFooterBytes);
  if (checksum(body) != footer.checksum) {
    fail<DataError>("{}: the checksum of the index is wrong; remove the shard and pack again",
                    name);
  }
  PackedShardIndex index;
  index.first_sample = footer.first_sample;
  index.entries.resize(footer.samples);
  ByteReader numbers(body, name);
  uint32_t name_end = 0;
  for (size_t i = 0; i < index.entries.size(); ++i) {
    auto& entry = index.entries[i];
    entry.offset = numbers.number<uint64_t>();
    entry.checksum = numbers.number<uint64_t>();
    entry.bytes = numbers.number<uint32_t>();
    entry.label = numbers.number<int32_t>();
    entry.height = numbers.number<uint32_t>();
    entry.width = numbers.number<uint32_t>();
    entry.name_end = numbers.number<uint32_t>();
    entry.channels = numbers.number<uint8_t>();
    entry.encoding = static_cast<PackedEncoding>(numbers.number<uint8_t>());
    numbers.skip(sizeof(uint16_t));
    check_entry(entry, footer.index_offset, name, i);
    if (entry.name_end < name_end || entry.name_end > footer.name_bytes) {
      fail<DataError>("{}: the name of sample {} lies outside the names", name, i);
    }
    name_end = entry.name_end;
  }
  index.names = text_of(body.subspan(footer.samples * kPackedEntryBytes, footer.name_bytes));
  ByteReader sums(body.last(kPackedSumsBytes), name);
  read_sums(sums, index.sums);
  return index;
}

int64_t PackedManifest::num_samples() const {
  int64_t count = 0;
  for (const auto& shard : shards) count += shard.samples;
  return count;
}

std::string format_packed_manifest(const PackedManifest& manifest) {
  auto shards = nlohmann::ordered_json::array();
  for (const auto& shard : manifest.shards) {
    shards.push_back({{"file", shard.file}, {"samples", shard.samples}, {"bytes", shard.bytes}});
  }
  nlohmann::ordered_json json = {{"format", kManifestFormat},
                                 {"version", kPackedVersion},
                                 {"num_samples", manifest.num_samples()},
                                 {"num_classes", manifest.num_classes},
                                 {"class_names", manifest.class_names},
                                 {"class_counts", manifest.class_counts},
                                 {"mean", manifest.mean},
                                 {"std", manifest.std},
                                 {"shards", shards}};
  if (manifest.has_volumes) {
    json["form"] = "volumes";
    json["has_masks"] = manifest.has_masks;
  }
  return json_text(json, 1) + "\n";
}

PackedManifest parse_packed_manifest(std::string_view text, const std::string& name) {
  const auto parsed = parse_json(text, kMaxManifestDepth);
  if (!parsed.is_object() || parsed.value("format", nlohmann::json()) != kManifestFormat) {
    fail<DataError>("{}: not the manifest of a packed data set", name);
  }
  const JsonValue json(parsed, name);
  const auto version = json.find("version");
  if (!version || version->raw() != kPackedVersion) {
    fail<DataError>("{}: version {} of the packed format; expected {}; pack the data set again",
                    name, version ? printable_start(json_text(version->raw())) : "unknown",
                    kPackedVersion);
  }
  PackedManifest manifest;
  manifest.num_classes = json.at("num_classes").integer();
  manifest.class_names = json.at("class_names").texts();
  for (std::string& class_name : manifest.class_names) class_name = printable(class_name);
  manifest.class_counts = json.at("class_counts").integers();
  manifest.mean = json.at("mean").numbers();
  manifest.std = json.at("std").numbers();
  if (const auto form = json.find("form")) {
    if (form->text() != "volumes") {
      fail<DataError>("{}: form {}; expected volumes; pack the data set again", name,
                      printable_start(form->text()));
    }
    manifest.has_volumes = true;
    manifest.has_masks = json.at("has_masks").boolean();
  }
  for (const auto& shard : json.at("shards").items()) {
    manifest.shards.push_back(
        {shard.at("file").text(), shard.at("samples").integer(), shard.at("bytes").count()});
  }
  const auto is_bad = [](const PackedManifest::Shard& shard) {
    return shard.file.empty() || shard.file.find('/') != std::string::npos ||
           shard.file[0] == '.' || shard.file.find('\0') != std::string::npos ||
           shard.samples < 1 || shard.samples > kMaxCount;
  };
  if (manifest.shards.empty() ||
      std::any_of(manifest.shards.begin(), manifest.shards.end(), is_bad)) {
    fail<DataError>("{}: no shards, or a shard that cannot be; pack the data set again", name);
  }
  if (manifest.num_classes < 0 || manifest.num_classes > kMaxClasses ||
      (!manifest.class_names.empty() &&
       static_cast<int64_t>(manifest.class_names.size()) != manifest.num_classes)) {
    fail<DataError>(
        "{}: {} classes, but {} names; expected as many, and at most {}: pack the data set again",
        name, manifest.num_classes, manifest.class_names.size(), kMaxClasses);
  }
  return manifest;
}

std::string packed_shard_name(int64_t shard) { return fmt::format("shard_{:06}.fvp", shard); }

}  // namespace fovea::data
