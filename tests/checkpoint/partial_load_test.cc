// What one of several processes needs of a checkpoint, read by itself.
#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "tests/checkpoint/support.h"

namespace fovea::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNumLayers = 8, kMatrixRows = 96, kMatrixColumns = 64;

State layered_state() {
  State state;
  for (int64_t i = 0; i < kNumLayers; ++i) {
    const auto weight =
        at::arange(kMatrixRows * kMatrixColumns, at::kFloat).view({kMatrixRows, kMatrixColumns}) +
        7 * i;
    const auto bias = at::arange(kMatrixRows, at::kFloat) - i;
    for (const auto& [name, tensor] : TensorMap{{"weight", weight}, {"bias", bias}}) {
      const auto path = fmt::format("{}.{}", i, name);
      state.model[path] = tensor;
      state.optimizer["exp_avg/" + path] = tensor * 0.5;
      state.ema[path] = tensor * 2;
    }
  }
  state.model["frozen"] = at::arange(5, at::kFloat);
  state.scalars = {{"step", 4}};
  return state;
}

// A rank of `shards` ranks, which divide each of `tp` cuts of the tensors: of q, k and v's rows.
struct Mesh {
  int64_t shards = 1, tp = 1;
};

// Parameters one behind the other, of which each shard has a range: so parts begin anywhere.
WantedParts wanted_by(int64_t shard, int64_t cut_index, const Mesh& mesh) {
  WantedParts wanted;
  const int64_t weights = kMatrixRows * kMatrixColumns / mesh.tp, biases = kMatrixRows / mesh.tp;
  const int64_t total = kNumLayers * (weights + biases);
  const int64_t begin = total * shard / mesh.shards, end = total * (shard + 1) / mesh.shards;
  int64_t at = 0;
  for (int64_t i = 0; i < kNumLayers; ++i) {
    for (const bool is_weight : {false, true}) {
      const auto count = is_weight ? weights : biases;
      const auto first = std::clamp(begin - at, int64_t{0}, count);
      const auto last = std::clamp(end - at, int64_t{0}, count);
      at += count;
      kernels::TensorPart part{.shape = {kMatrixRows}, .first = last > first ? first : 0};
      if (is_weight) part.shape.push_back(kMatrixColumns);
      if (mesh.tp > 1)
        part.cut = kernels::TensorCut{.blocks = 3, .index = cut_index, .count = mesh.tp};
      const auto name = fmt::format("{}.{}", i, is_weight ? "weight" : "bias");
      const WantedPart one{part, {last - first}};
      wanted["model"][name] = wanted["ema"][name] = wanted["optimizer"]["exp_avg/" + name] = one;
    }
  }
  return wanted;
}

// All ranks of a mesh save their parts; the first has the rest.
void save_on(const std::string& folder, const Mesh& mesh) {
  const auto whole = layered_state();
  const auto count = mesh.shards * mesh.tp;
  std::barrier meeting(count);
  std::vector<std::thread> writers;
  for (int64_t rank = 0; rank < count; ++rank) {
    writers.emplace_back([&, rank] {
      const auto own = wanted_by(rank / mesh.tp, rank % mesh.tp, mesh);
      State state;
      state.scalars = whole.scalars;
      const auto take = [&](const std::string& part, const TensorMap& from, TensorMap& to) {
        for (const auto& [name, tensor] : from) {
          const auto found = own.at(part).find(name);
          if (count == 1 || found == own.at(part).end()) {
            if (rank == 0) to[name] = tensor;
            continue;
          }
          to[name] = kernels::take_part(found->second.part, tensor, found->second.sizes);
          state.parts[part][name] = found->second.part;
        }
      };
      take("model", whole.model, state.model);
      take("optimizer", whole.optimizer, state.optimizer);
      take("ema", whole.ema, state.ema);
      Store store(folder, {.async = false,
                           .writer = rank,
                           .num_writers = count,
                           .barrier = [&] { meeting.arrive_and_wait(); },
                           .patience = 20});
      store.save(4, state, /*is_best=*/false);
    });
  }
  for (auto& writer : writers) writer.join();
}

// Bytes that this process has read so far.
int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  int64_t value = 0;
  while (file >> key >> value) {
    if (key == "rchar:") return value;
  }
  ADD_FAILURE() << "/proc/self/io has no rchar";
  return 0;
}

void expect_parts(const State& found, const WantedParts& wanted) {
  const auto whole = layered_state();
  const auto compare = [&](const std::string& part, const TensorMap& of, const TensorMap& from) {
    ASSERT_EQ(of.size(), from.size());
    for (const auto& [name, tensor] : from) {
      const auto& parts = wanted.at(part);
      const auto own = parts.find(name);
      const auto expected = own == parts.end()
                                ? tensor
                                : kernels::take_part(own->second.part, tensor, own->second.sizes);
      EXPECT_TRUE(of.at(name).equal(expected)) << part << " " << name;
      const auto is_part = found.parts.contains(part) && found.parts.at(part).contains(name);
      EXPECT_EQ(is_part, own != parts.end()) << name;
    }
  };
  compare("model", found.model, whole.model);
  compare("optimizer", found.optimizer, whole.optimizer);
  compare("ema", found.ema, whole.ema);
}

TEST(PartialLoadTest, EachRankOfAnyMeshReadsItsShareOfWhatAnyMeshWrote) {
  int64_t total = 0;
  for (const auto& [name, tensor] : layered_state().model) {
    total += 3 * static_cast<int64_t>(tensor.nbytes());
  }
  const int64_t matrix = kMatrixRows * kMatrixColumns * 4;
  for (const auto& written_on : {Mesh{1, 1}, Mesh{3, 1}, Mesh{2, 2}, Mesh{1, 4}}) {
    const TempDir folder;
    save_on(folder.path(), written_on);
    const Store reader(folder.path());
    const auto before = bytes_read();
    read_manifest(folder.path() + "/step_00000004");
    const auto overhead = bytes_read() - before;
    for (const auto& mesh : {Mesh{4, 1}, Mesh{3, 2}, Mesh{1, 2}}) {
      SCOPED_TRACE(fmt::format("{} x {} -> {} x {}", written_on.shards, written_on.tp, mesh.shards,
                               mesh.tp));
      for (int64_t rank = 0; rank < mesh.shards * mesh.tp; ++rank) {
        const auto wanted = wanted_by(rank / mesh.tp, rank % mesh.tp, mesh);
        const auto start = bytes_read();
        const auto found = reader.load(4, wanted);
        const auto read = bytes_read() - start - overhead;
        expect_parts(found, wanted);
        // A matrix at either end of a range is read whole, of each of three; so are all cuts of one
        // that was not cut. Files have headers.
        EXPECT_LE(read, total / mesh.shards + 3 * 2 * matrix + 64 * 1024);
      }
    }
  }
}

void flip_byte(const std::string& path, size_t at) {
  auto bytes = read_bytes(path);
  bytes.at(at) ^= 0x40;
  write_bytes(path, bytes);
}

int64_t readers_that_refuse(const std::string& folder, const Mesh& mesh) {
  int64_t count = 0;
  for (int64_t rank = 0; rank < mesh.shards; ++rank) {
    try {
      Store(folder).load(4, wanted_by(rank, 0, mesh));
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("model-00000.safetensors: its checksum does not fit"));
      count += 1;
    }
  }
  return count;
}

// Wherever a bit changed, one rank sees it, and of numbers only those who need them.
TEST(PartialLoadTest, AChangedByteIsSeenByWhoReadsIt) {
  const Mesh mesh{.shards = 4};
  const TempDir folder;
  save_on(folder.path(), {});
  const auto file = folder.path() + "/step_00000004/model-00000.safetensors";
  EXPECT_EQ(readers_that_refuse(folder.path(), mesh), 0);
  const auto size = read_bytes(file).size();
  for (size_t at = 13; at < size; at += size / 23) {
    flip_byte(file, at);
    const auto count = readers_that_refuse(folder.path(), mesh);
    EXPECT_GE(count, 1) << at;
    if (at > 16384 && at + 64 < size) {  // behind the header, before what all need
      EXPECT_LE(count, 2) << at;
    }
    flip_byte(file, at);
  }
}

// Checkpoints from before slices had checksums: whole files are checked.
TEST(PartialLoadTest, WithoutChecksumsOfSlicesAllOfAFileIsChecked) {
  const Mesh mesh{.shards = 4};
  const TempDir folder;
  save_on(folder.path(), {});
  const auto checkpoint = folder.path() + "/step_00000004";
  auto manifest = read_manifest(checkpoint);
  for (auto& file : manifest.files) file.preamble.clear();
  for (auto& [part, tensors] : manifest.tensors) {
    for (auto& [name, tensor] : tensors) {
      for (auto& slice : tensor.slices) slice.sum.clear();
    }
  }
  write_bytes(checkpoint + "/manifest.json", manifest.to_text());
  const auto wanted = wanted_by(2, 0, mesh);
  expect_parts(Store(folder.path()).load(4, wanted), wanted);
  flip_byte(checkpoint + "/model-00000.safetensors", 100000);
  EXPECT_EQ(readers_that_refuse(folder.path(), mesh), 4);
}

}  // namespace
}  // namespace fovea::checkpoint
