// What ranks say to each other: the collectives of one group of ranks, counted.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace fovea::parallel {

enum class ReduceOp { kSum, kMax };
enum class Collective {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kShift,
  kBarrier
};

// "all_reduce" ...
const char* name_of(Collective collective);

// Calls, and the bytes of the larger side: what a rank holds whole before or after.
struct CollectiveCount {
  int64_t calls = 0;
  int64_t bytes = 0;
  bool operator==(const CollectiveCount&) const = default;
};
using CollectiveCounts = std::map<Collective, CollectiveCount>;

// A collective under way. Its tensors must not be touched before wait() returns.
class Pending {
 public:
  virtual ~Pending() = default;
  // Of tensors on a device the current stream waits, and the host goes on where the device has a
  // back end of its own. Throws RankError: another rank failed, is gone, or did not come in time.
  virtual void wait() = 0;
};

// One group of ranks. All of them call the same functions in the same order, from one thread at a
// time. Tensors are contiguous, of float32, float64, bfloat16, int64 or uint8, and of equal sizes
// on all ranks; `what` says in messages what is being moved. No autograd. Results of a sum are
// bitwise equal on all ranks, and from run to run. A group of one moves and counts nothing.
class Communicator {
 public:
  // One of its collectives, as who carries it out gets it.
  struct Request {
    Collective collective;
    at::Tensor out, in;  // the same tensor where a collective works in place
    std::string what;
    ReduceOp op = ReduceOp::kSum;
    int64_t root = 0;
    bool is_waited_for = false;  // at once, by who starts it

    int64_t bytes() const;  // of the larger side; a barrier has none
  };

  virtual ~Communicator() = default;

  int64_t rank() const { return rank_; }  // within the group
  int64_t size() const { return size_; }
  // What timelines and checks call the group: "dp_shard", "tp" ...
  const std::string& name() const { return name_; }
  void set_name(const std::string& name) { name_ = name; }

  // From now on `check` is called with each collective in words, kind, sizes and dtype, before it
  // starts; see CollectiveCheck.
  void set_check(std::function<void(const std::string&)> check) { check_ = std::move(check); }

  // x becomes the sum or the largest over the ranks, element by element.
  void all_reduce(const at::Tensor& x, const std::string& what, ReduceOp op = ReduceOp::kSum);
  // x becomes that of rank `root`.
  void broadcast(const at::Tensor& x, int64_t root, const std::string& what);
  // out: `size` parts, part r is rank r's `in`.
  void all_gather(const at::Tensor& out, const at::Tensor& in, const std::string& what);
  // in: `size` parts; out: the sum over the ranks of their part number rank(). Numbers of bfloat16
  // may be summed in float32 or float64: `out` is of that then.
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in, const std::string& what);
  // in, out: `size` parts each; part r of out is what rank r had as its part rank().
  void all_to_all(const at::Tensor& out, const at::Tensor& in, const std::string& what);
  // out becomes what rank() - 1 has as `in`; of rank 0 that of the last one.
  void shift(const at::Tensor& out, const at::Tensor& in, const std::string& what);
  // Returns once every rank has called it.
  void barrier(const std::string& what);

  // The same without waiting.
  std::unique_ptr<Pending> start_all_reduce(const at::Tensor& x, const std::string& what,
                                            ReduceOp op = ReduceOp::kSum);
  std::unique_ptr<Pending> start_all_gather(const at::Tensor& out, const at::Tensor& in,
                                            const std::string& what);
  std::unique_ptr<Pending> start_reduce_scatter(const at::Tensor& out, const at::Tensor& in,
                                                const std::string& what);
  std::unique_ptr<Pending> start_all_to_all(const at::Tensor& out, const at::Tensor& in,
                                            const std::string& what);
  std::unique_ptr<Pending> start_shift(const at::Tensor& out, const at::Tensor& in,
                                       const std::string& what);

  // What is under way, in whichever thread, and on the other ranks, ends with an error, at once,
  // also beside a rank that does not answer; so does all that is started later. From any thread.
  virtual void give_up(const std::string& why) { static_cast<void>(why); }

  const CollectiveCounts& counts() const { return counts_; }
  void reset_counts() { counts_.clear(); }

 protected:
  Communicator(int64_t rank, int64_t size) : rank_(rank), size_(size) {}
  virtual std::unique_ptr<Pending> start(const Request& request) = 0;

 private:
  std::unique_ptr<Pending> checked(const Request& request);
  void run(Request request);  // and wait

  int64_t rank_, size_;
  std::string name_ = "ranks";
  std::function<void(const std::string&)> check_;
  CollectiveCounts counts_;
};

// The group of one: every collective is a copy.
std::unique_ptr<Communicator> make_one_rank();
// A shared one, for code that was given none.
Communicator& one_rank();

// Everybody's text, by rank. Two collectives.
std::vector<std::string> all_gather_text(Communicator& ranks, const std::string& text,
                                         const std::string& what);

// Each number becomes the sum over the ranks: one collective.
void sum_over_ranks(Communicator& ranks, std::span<double> numbers, const std::string& what);

// The largest over the ranks of a number.
double max_over_ranks(Communicator& ranks, double number, const std::string& what);

}  // namespace fovea::parallel
