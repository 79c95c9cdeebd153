// What was measured of a model on devices and between them: what predicted steps are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::elastic {

inline constexpr int64_t kProfileVersion = 1;
inline constexpr int64_t kMaxLocalBatch = 1 << 24;  // no profile has more samples in a pass
inline constexpr int64_t kMaxConcurrent = 256;

// One pass: `concurrent` workers of a device, each with local_batch samples, at the same time. ms.
struct ComputationPoint {
  int64_t local_batch = 0;
  int64_t concurrent = 1;
  double data_ms = 0;
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;  // of the optimizer, once a step
  double copy_ms = 0;    // of weights to the other workers, once a step; 0 where they share them
  double sync_ms = 0;    // of buffers that all devices agree on, once a step and worker

  bool operator==(const ComputationPoint&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("local_batch", self.local_batch);
    v.field("concurrent", self.concurrent);
    v.field("data_ms", self.data_ms);
    v.field("forward_ms", self.forward_ms);
    v.field("backward_ms", self.backward_ms);
    v.field("update_ms", self.update_ms);
    v.optional_field("copy_ms", self.copy_ms);
    v.optional_field("sync_ms", self.sync_ms);
  }
};

// At most so many workers of this batch at the same time: what the device's memory holds.
struct MemoryPoint {
  int64_t local_batch = 0;
  int64_t max_concurrent = 1;

  bool operator==(const MemoryPoint&) const = default;
  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("local_batch", self.local_batch);
    v.field("max_concurrent", self.max_concurrent);
  }
};

// DIR/devices/FINGERPRINT.json: one kind of device, wherever it stands. Computation by concurrent
// workers, then by batch.
struct DeviceProfile {
  int64_t version = kProfileVersion;
  std::string fingerprint{};  // of the kind of device, such as its name and memory
  std::string model{};
  std::string dtype{};
  int64_t memory_bytes = 0;
  std::vector<ComputationPoint> computation{};
  std::vector<MemoryPoint> memory{};
  std::string measured{};  // when, "2026-11-26T09:00:00Z"; empty: not known
  std::string host{};      // of JABAS's folders: the only one that it is of; in no file of ours

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("version", self.version);
    v.field("fingerprint", self.fingerprint);
    v.field("model", self.model);
    v.field("dtype", self.dtype);
    v.field("memory_bytes", self.memory_bytes);
    v.field("computation", self.computation);
    v.field("memory", self.memory);
    v.optional_field("measured", self.measured);
  }
  // What memory holds of passes of this batch; 0: none.
  int64_t max_concurrent(int64_t local_batch) const;
};

// DIR/buckets.json: what is reduced at once, in the order of backward.
struct BucketProfile {
  int64_t version = kProfileVersion;
  std::string model{};
  std::vector<double> megabytes{};  // 2^20 bytes

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("version", self.version);
    v.field("model", self.model);
    v.field("megabytes", self.megabytes);
  }
};

// A collective of so many bytes among so many ranks.
struct CommunicationPoint {
  std::string collective{};  // "all_reduce", "reduce_scatter", "all_gather"
  std::string place{};       // "intra": within a node, "inter": between nodes
  int64_t ranks = 0;
  double bytes = 0;
  double ms = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("collective", self.collective);
    v.field("place", self.place);
    v.field("ranks", self.ranks);
    v.field("bytes", self.bytes);
    v.field("ms", self.ms);
  }
};

// DIR/communication.json
struct CommunicationProfile {
  int64_t version = kProfileVersion;
  std::vector<CommunicationPoint> points{};
  std::string measured{};  // as of a device

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("version", self.version);
    v.field("points", self.points);
    v.optional_field("measured", self.measured);
  }
};

// y = base + slope x.
struct Line {
  double base = 0;
  double slope = 0;

  double at(double x) const { return base + slope * x; }
};
// Least squares. With one point a line through it and 0; a slope is at least 0, for more bytes do
// not take less time.
Line fit_line(const std::vector<double>& x, const std::vector<double>& y);

// All that is known of a model.
struct ProfileSet {
  std::string source{};  // its folder
  std::string model{};
  std::vector<DeviceProfile> devices{};
  std::vector<double> bucket_megabytes{};
  std::vector<CommunicationPoint> communication{};
  std::string communication_measured{};  // when; empty: not known
  // Of JABAS's folders in place of points: measured ms over those that 4 (n - 1) / n bytes take at
  // full bandwidth, within a node and between nodes.
  bool has_lines = false;
  Line intra{}, inter{};

  // That of the host, else that of its kind of device; nullptr: there is none.
  const DeviceProfile* find(const std::string& host, const std::string& fingerprint) const;
};

// One file's text, checked: times from 0, batches and workers from 1, no point twice. Throws
// DataError naming `source` and the key.
DeviceProfile parse_device_profile(std::string_view text, const std::string& source);
BucketProfile parse_bucket_profile(std::string_view text, const std::string& source);
CommunicationProfile parse_communication_profile(std::string_view text, const std::string& source);

// The same as text.
std::string profile_text(const DeviceProfile& device);
std::string profile_text(const BucketProfile& buckets);
std::string profile_text(const CommunicationProfile& communication);

// Of a device's file within `devices`.
std::string profile_file_name(const std::string& fingerprint);
bool has_profiles(const std::string& dir);  // of a device, at least

// DIR with devices/*.json, buckets.json and communication.json. Throws DataError for what is
// missing, damaged, of another version, or of another model or dtype than the rest.
ProfileSet read_profiles(const std::string& dir);
// The same files. Throws WriteError.
void write_profiles(const ProfileSet& profiles, const std::string& dir);

}  // namespace fovea::elastic
