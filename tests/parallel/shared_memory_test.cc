// Ranks as threads of this process, each with a backend of its own: what they exchange goes through
// the same rings as between processes.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/parallel/launch_env.h"
#include "fovea/parallel/process_group.h"
#include "fovea/parallel/shared_memory/ring.h"
#include "fovea/parallel/shared_memory/shared_file.h"
#include "fovea/parallel/shared_memory/shared_memory_backend.h"
#include "fovea/parallel/shared_memory/start.h"
#include "tests/data/support.h"

namespace fovea::parallel {
namespace {

using data::testing::message_of;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Request = Communicator::Request;

constexpr size_t kSmallRing = 1024;  // nearly everything goes round in it
constexpr milliseconds kEnough{20000};

// A backend for each rank of a group.
std::vector<std::unique_ptr<HostBackend>> make_backends(int64_t size, size_t ring_bytes) {
  const auto bytes = shared_bytes(size, ring_bytes);
  std::vector<SharedFile> own;
  std::vector<SharedPlace> places;
  for (int64_t rank = 0; rank < size; ++rank) {
    own.push_back(SharedFile::make(bytes));
    places.push_back(own.back().place());
  }
  std::vector<std::unique_ptr<HostBackend>> backends;
  for (size_t rank = 0; rank < own.size(); ++rank) {
    std::vector<SharedFile> files;
    for (size_t i = 0; i < own.size(); ++i) {
      files.push_back(i == rank ? std::move(own[i]) : SharedFile::open(places[i], bytes));
    }
    backends.push_back(
        make_shared_memory_backend(std::move(files), static_cast<int64_t>(rank), ring_bytes));
  }
  return backends;
}

void in_threads(int64_t count, const std::function<void(int64_t rank)>& body) {
  std::vector<std::future<void>> ranks;
  for (int64_t rank = 0; rank < count; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&body, rank] { body(rank); }));
  }
  for (auto& rank : ranks) rank.get();
}

void exchange(HostBackend& backend, const Request& request) {
  ASSERT_TRUE(backend.begin(request, {})->wait(kEnough));
}

// Numbers of a rank, drawn from few enough values that sums of floats round.
at::Tensor drawn_numbers(int64_t rank, int64_t count, at::ScalarType dtype) {
  const auto numbers = at::arange(count, at::kDouble).mul(0.37 + 0.11 * rank).sin().mul(100);
  return (dtype == at::kByte ? numbers.abs() : numbers).to(dtype);
}

// What a rank gets of a collective, of `count` numbers a rank and part.
at::Tensor outcome_of_rank(HostBackend& backend, Collective collective, int64_t rank, int64_t size,
                           int64_t count, at::ScalarType dtype) {
  const bool has_parts =
      collective == Collective::kAllToAll || collective == Collective::kReduceScatter;
  Request request{.collective = collective, .out = {}, .in = {}, .what = "numbers"};
  request.in = drawn_numbers(rank, has_parts ? size * count : count, dtype);
  request.root = size - 1;
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
      request.out = request.in;
      break;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      request.out = at::full({size * count}, 77).to(dtype);
      break;
    default:
      request.out = at::full({count}, 77).to(dtype);
  }
  exchange(backend, request);
  return request.out;
}

at::Tensor expected_of(Collective collective, int64_t rank, int64_t size, int64_t count,
                       at::ScalarType dtype) {
  const auto part_of = [&](int64_t sender) {
    return drawn_numbers(sender, size * count, dtype).narrow(0, rank * count, count);
  };
  std::vector<at::Tensor> parts;
  switch (collective) {
    case Collective::kAllGather:
      for (int64_t i = 0; i < size; ++i) parts.push_back(drawn_numbers(i, count, dtype));
      return at::cat(parts);
    case Collective::kAllToAll:
      for (int64_t i = 0; i < size; ++i) parts.push_back(part_of(i));
      return at::cat(parts);
    case Collective::kShift:
      return drawn_numbers((rank + size - 1) % size, count, dtype);
    case Collective::kReduceScatter:
      return part_of(0) + part_of(1);
    case Collective::kAllReduce:
      return drawn_numbers(0, count, dtype) + drawn_numbers(1, count, dtype);
    default:
      return drawn_numbers(size - 1, count, dtype);
  }
}

TEST(SharedMemoryTest, MovesAnySize) {
  for (const int64_t size : {2, 3, 5}) {
    const auto backends = make_backends(size, kSmallRing);
    in_threads(size, [&](int64_t rank) {
      auto& backend = *backends[static_cast<size_t>(rank)];
      for (const int64_t count : {0, 1, 17, 256, 1021, 3000}) {
        for (const auto dtype : {at::kFloat, at::kByte, at::kBFloat16}) {
          for (const auto collective :
               {Collective::kAllGather, Collective::kShift, Collective::kBroadcast,
                Collective::kAllToAll, Collective::kReduceScatter, Collective::kAllReduce}) {
            const bool is_sum =
                collective == Collective::kReduceScatter || collective == Collective::kAllReduce;
            if (is_sum && size > 2) continue;  // their order: below
            const auto got = outcome_of_rank(backend, collective, rank, size, count, dtype);
            EXPECT_TRUE(got.equal(expected_of(collective, rank, size, count, dtype)))
                << name_of(collective) << " of " << count << " " << c10::toString(dtype)
                << " on rank " << rank << " of " << size;
          }
        }
      }
      exchange(backend,
               {.collective = Collective::kBarrier, .out = {}, .in = {}, .what = "the end"});
    });
  }
}

// Sums of floats over more than two ranks depend on their order: it is Gloo's.
TEST(SharedMemoryTest, SumsAreThoseOfGloo) {
  const StoreServer server(listen_at("127.0.0.1", 0, /*is_for_others=*/false,
                                     std::chrono::steady_clock::now() + kEnough),
                           "");
  for (const int64_t size : {2, 3, 4}) {
    const auto backends = make_backends(size, size_t{64} << 10);
    in_threads(size, [&](int64_t rank) {
      const KeyStore store(
          {.place = {.address = "127.0.0.1", .port = server.port()}, .timeout = kEnough});
      const auto gloo = make_gloo_backend(
          store.under(std::to_string(size)),
          {.rank = rank, .size = size, .address = "127.0.0.1", .timeout = kEnough});
      // 2200011 floats: several segments for each rank.
      for (const int64_t count : {1, 2, 5, 1000, 70000, 2200011}) {
        for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
          for (const auto op : {ReduceOp::kSum, ReduceOp::kMax}) {
            if (count > 70000 && (dtype != at::kFloat || op != ReduceOp::kSum)) continue;
            auto a = drawn_numbers(rank, count, dtype), b = a.clone();
            const Request request{
                .collective = Collective::kAllReduce, .out = a, .in = a, .what = "a sum", .op = op};
            exchange(*backends[static_cast<size_t>(rank)], request);
            auto of_gloo = request;
            of_gloo.out = of_gloo.in = b;
            exchange(*gloo, of_gloo);
            EXPECT_TRUE(a.equal(b))
                << count << " " << c10::toString(dtype) << " on rank " << rank << " of " << size;
          }
        }
      }
    });
  }
}

TEST(SharedMemoryTest, AddsBfloat16InFloat) {
  const auto backends = make_backends(2, kSmallRing);
  in_threads(2, [&](int64_t rank) {
    const auto sent = drawn_numbers(rank, 2 * 1500, at::kBFloat16), sum = at::zeros({1500});
    exchange(*backends[static_cast<size_t>(rank)],
             {.collective = Collective::kReduceScatter, .out = sum, .in = sent, .what = "a sum"});
    const auto part_of = [&](int64_t sender) {
      return drawn_numbers(sender, 2 * 1500, at::kBFloat16)
          .narrow(0, rank * 1500, 1500)
          .to(at::kFloat);
    };
    EXPECT_TRUE(sum.equal(part_of(0) + part_of(1)));
  });
}

// Two groups, in each several under way, for which the ranks wait in different orders. None of it
// fits into a ring, so all of it has to go on while somebody waits for something else.
TEST(SharedMemoryTest, SeveralAreUnderWayInTwoGroups) {
  constexpr int64_t kEach = 4, kCount = 4000;
  const auto first = make_backends(2, kSmallRing), second = make_backends(2, kSmallRing);
  in_threads(2, [&](int64_t rank) {
    std::vector<std::pair<Request, std::unique_ptr<HostWork>>> started;
    for (int64_t i = 0; i < kEach; ++i) {
      for (const auto* group : {&first, &second}) {
        const auto collective = i % 2 == 0 ? Collective::kAllReduce : Collective::kAllGather;
        const auto in = drawn_numbers(rank, kCount, at::kFloat);
        const auto out = i % 2 == 0 ? in : at::empty({2 * kCount});
        const Request request{.collective = collective, .out = out, .in = in, .what = "numbers"};
        started.emplace_back(request, (*group)[static_cast<size_t>(rank)]->begin(request, {}));
      }
    }
    if (rank == 1) std::reverse(started.begin(), started.end());
    for (auto& [request, work] : started) {
      ASSERT_TRUE(work->wait(kEnough));
      EXPECT_TRUE(request.out.equal(expected_of(request.collective, rank, 2, kCount, at::kFloat)));
    }
  });
}

// While a rank computes, what it was sent comes, and what others want of it goes.
TEST(SharedMemoryTest, GoesOnWhileNobodyWaits) {
  const auto backends = make_backends(2, kSmallRing);
  std::array<std::promise<void>, 2> done;
  std::vector<std::unique_ptr<HostWork>> works;
  std::vector<at::Tensor> sums;
  for (int64_t rank = 0; rank < 2; ++rank) {
    const auto x = drawn_numbers(rank, 9999, at::kFloat);
    sums.push_back(x);
    works.push_back(backends[static_cast<size_t>(rank)]->begin(
        {.collective = Collective::kAllReduce, .out = x, .in = x, .what = "a sum"},
        [&done, rank] { done[static_cast<size_t>(rank)].set_value(); }));
  }
  for (auto& rank : done) {
    ASSERT_EQ(rank.get_future().wait_for(kEnough), std::future_status::ready);
  }
  EXPECT_TRUE(sums[0].equal(sums[1]));
}

TEST(SharedMemoryTest, ARankThatIsGoneIsNamed) {
  auto backends = make_backends(3, kSmallRing);
  const auto x = at::zeros({5000});
  const Request request{.collective = Collective::kAllReduce, .out = x, .in = x, .what = "a sum"};
  const auto work = backends[0]->begin(request, {});
  const auto y = at::zeros({5000});
  backends[1]->begin({.collective = Collective::kAllReduce, .out = y, .in = y, .what = "a sum"},
                     {});
  EXPECT_FALSE(work->wait(milliseconds(50)));  // rank 2 may still come
  backends[2].reset();
  EXPECT_THAT(message_of<Error>([&] { work->wait(milliseconds(50)); }),
              HasSubstr("rank 2 of the group has left"));
}

// What a rank has written before it left is there to be read.
TEST(SharedMemoryTest, TheLastWordsOfARankAreHeard) {
  auto backends = make_backends(2, kSmallRing);
  const auto sent = drawn_numbers(1, 10, at::kFloat), got = at::zeros({10});
  backends[1]->begin(
      {.collective = Collective::kBroadcast, .out = sent, .in = sent, .what = "words", .root = 1},
      {});
  backends[1].reset();
  exchange(
      *backends[0],
      {.collective = Collective::kBroadcast, .out = got, .in = got, .what = "words", .root = 1});
  EXPECT_TRUE(got.equal(sent));
}

TEST(SharedMemoryTest, RanksThatDoDifferentThingsAreTold) {
  const auto backends = make_backends(2, kSmallRing);
  const auto x = at::zeros({4}), all = at::zeros({8});
  const auto sum = backends[0]->begin(
      {.collective = Collective::kAllReduce, .out = x, .in = x, .what = "a sum"}, {});
  backends[1]->begin(
      {.collective = Collective::kAllGather, .out = all, .in = at::zeros({4}), .what = "parts"},
      {});
  EXPECT_THAT(message_of<Error>([&] { sum->wait(kEnough); }),
              AllOf(HasSubstr("rank 1 of the group sends all_gather of 64 bytes of Float"),
                    HasSubstr("expects all_reduce"), HasSubstr("parallel.check_collectives")));
}

TEST(SharedFileTest, OpensWhatItsPlaceSays) {
  auto own = std::make_unique<SharedFile>(SharedFile::make(8192));
  const auto place = own->place();
  const auto opened = SharedFile::open(place, 8192);
  own->data()[8191] = std::byte{5};
  EXPECT_EQ(opened.data()[8191], std::byte{5});
  EXPECT_TRUE(opened.has_owner());
  auto other = place;
  other.token += 1;
  EXPECT_THAT(message_of<Error>([&] { SharedFile::open(other, 8192); }),
              HasSubstr("is the shared memory of something else"));
  EXPECT_THAT(message_of<Error>([&] { SharedFile::open(place, 4096); }),
              HasSubstr("is not the shared memory of that rank"));
  other = place;
  other.process = 1 << 30;
  EXPECT_THAT(message_of<Error>([&] { SharedFile::open(other, 8192); }),
              HasSubstr("No such file or directory"));
  own.reset();
  EXPECT_FALSE(opened.has_owner());
}

TEST(SharedFileTest, IsRefusedBeforeASignalWouldEndTheProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT(message_of<Error>([] { SharedFile::make(size_t{2} << 20); }),
              HasSubstr("2 MiB of shared memory are more than a file may have (ulimit -f)"));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

// How ranks agree, each with a connection to the store.
class SharedStartTest : public ::testing::Test {
 protected:
  KeyStore connect() const {
    return KeyStore(
        {.place = {.address = "127.0.0.1", .port = server_.port()}, .timeout = kEnough});
  }

  // What becomes of rank 0 of two, where the other one tells so.
  std::string why_not(const std::string& offer, const std::string& opened = "") {
    const auto store = connect().under(std::to_string(num_starts_++));
    auto other = store;
    other.set("offer/1", offer);
    other.set("opened/1", opened);
    std::string why;
    EXPECT_EQ(share_memory(store, {.rank = 0, .size = 2, .address = "", .timeout = kEnough}, why),
              nullptr);
    return why;
  }

  StoreServer server_{listen_at("127.0.0.1", 0, /*is_for_others=*/false,
                                std::chrono::steady_clock::now() + kEnough),
                      ""};
  int num_starts_ = 0;
};

TEST_F(SharedStartTest, AllShareOrNone) {
  for (const std::string wish : {"", kSharedCollectives, kGlooCollectives}) {
    in_threads(3, [&](int64_t rank) {
      std::string why_not;
      const auto backend = share_memory(
          connect().under("all" + wish),
          {.rank = rank, .size = 3, .address = "", .timeout = kEnough, .collectives = wish},
          why_not);
      EXPECT_EQ(backend == nullptr, wish == kGlooCollectives);
      EXPECT_EQ(why_not, wish == kGlooCollectives ? "FOVEA_COLLECTIVES=gloo" : "");
    });
  }
}

TEST_F(SharedStartTest, SaysWhyNot) {
  EXPECT_EQ(why_not("any another-machine 1 2 3 "), "the ranks are on several machines");
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  EXPECT_EQ(why_not("any " + id + " 0 -1 0 64 MiB of shared memory are not to be had"),
            "rank 1 of the group: 64 MiB of shared memory are not to be had");
  EXPECT_THAT(why_not("any " + id + " 1073741824 5 6 "),  // as of another container
              AllOf(HasSubstr("rank 0 of the group: /proc/1073741824/fd/5"),
                    HasSubstr("No such file or directory")));
  EXPECT_THAT(why_not("any nonsense"), HasSubstr("several machines"));
}

TEST_F(SharedStartTest, RanksThatWishDifferentlyAreTold) {
  in_threads(2, [&](int64_t rank) {
    EXPECT_THAT(
        message_of<ConfigError>([&] {
          std::string why_not;
          share_memory(connect().under("wishes"),
                       {.rank = rank,
                        .size = 2,
                        .address = "",
                        .timeout = kEnough,
                        .collectives = rank == 0 ? "gloo" : ""},
                       why_not);
        }),
        AllOf(HasSubstr("FOVEA_COLLECTIVES is "), HasSubstr("'gloo'"), HasSubstr("not set")));
  });
}

}  // namespace
}  // namespace fovea::parallel
