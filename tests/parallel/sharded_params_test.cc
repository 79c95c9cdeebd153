#include "fovea/parallel/sharded_params.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/parallel/run_ranks.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/gpu_test.h"

namespace fovea::parallel {
namespace {

using testing::run_ranks;

// y = tanh(x w^T + b): backward needs w.
class LayerImpl : public nn::UnitImpl {
 public:
  explicit LayerImpl(int64_t width) {
    weight = register_parameter("weight", at::ones({width, width}, at::kDouble) * 0.1);
    bias = register_parameter("bias", at::ones({width}, at::kDouble) * 0.2);
  }
  at::Tensor forward(const at::Tensor& x) const {
    return run([&] {
      const auto y = at::linear(x, weight, bias);
      return at::tanh(also.defined() ? at::matmul(y, also) : y);
    });
  }
  at::Tensor weight, bias;
  at::Tensor also;  // of another layer
};

// head(blocks), the width no multiple of anything.
class NetImpl : public nn::UnitImpl {
 public:
  explicit NetImpl(int64_t width = 5, int64_t depth = 3) {
    const auto list = register_module("blocks", std::make_shared<torch::nn::Module>());
    for (int64_t i = 0; i < depth; ++i) {
      blocks.push_back(
          list->register_module(std::to_string(i), std::make_shared<LayerImpl>(width)));
    }
    head = register_parameter("head", at::ones({width}, at::kDouble));
  }
  at::Tensor forward(at::Tensor x) {
    return run([&] {
      for (const auto& block : blocks) x = block->forward(x);
      return at::matmul(x, head);
    });
  }
  std::vector<std::shared_ptr<LayerImpl>> blocks;
  at::Tensor head;
};

using Grads = std::map<std::string, at::Tensor>;

Grads plain_grads(const NetImpl& net) {
  Grads grads;
  for (const auto& item : net.named_parameters()) {
    const auto& grad = item.value().grad();
    grads[item.key()] = grad.defined() ? grad.clone() : at::zeros_like(item.value());
  }
  return grads;
}

Grads joined_grads(const ShardedParams& shards) {
  Grads grads;
  for (const auto& param : shards.params()) {
    const auto whole = at::zeros({c10::multiply_integers(param.shape)}, at::kDouble);
    if (param.part.numel() > 0) {
      whole.narrow(0, param.first, param.part.numel()).copy_(param.part.grad());
    }
    shards.owners().all_reduce(whole, "gradients");
    grads[param.name] = whole.view(param.shape);
  }
  return grads;
}

// One backward pass of a step.
void go_backward(ShardedParams& shards, const at::Tensor& loss, bool is_last = true) {
  shards.before_backward(is_last);
  loss.backward();
  shards.after_backward();
}

// Of a net in one process.
void expect_gradients_of(const NetImpl& plain, const ShardedParams& shards,
                         const std::string& what = "") {
  const auto expected = plain_grads(plain);
  for (const auto& [name, grad] : joined_grads(shards)) {
    EXPECT_TRUE(at::allclose(grad, expected.at(name), 1e-12, 1e-14)) << name << " " << what;
  }
}

bool has_memory(const at::Tensor& x) { return x.storage().nbytes() > 0; }

at::Tensor input(double seed, int64_t width = 5) {
  return at::sin(at::arange(2 * width, at::kDouble) + seed).view({2, width});
}

// `loss` of a net on this rank and on all of them in one process.
void expect_same_gradients(World& world, const ShardOptions& options,
                           const std::function<at::Tensor(NetImpl&, int64_t rank)>& loss) {
  NetImpl plain, net;
  ShardedParams shards(pieces_by_unit(net), world.all(), one_rank(), options);
  for (int step = 1; step <= 2; ++step) {  // the second one fetches ahead
    const auto own = loss(net, world.rank());
    go_backward(shards, own);
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (int64_t rank = 0; rank < world.size(); ++rank) sum = sum + loss(plain, rank);
    sum.backward();
    expect_gradients_of(plain, shards, std::to_string(step));
    for (const auto& param : shards.params()) {
      EXPECT_EQ(has_memory(param.whole), param.name == "head") << param.name;
      EXPECT_FALSE(param.whole.grad().defined()) << param.name;
    }
  }
}

TEST(ShardedParamsTest, GradientsOfEveryWayThroughTheUnits) {
  run_ranks(3, [](World& world) {
    const auto twice = [](NetImpl& net, int64_t rank) {
      auto x = net.blocks[0]->forward(input(static_cast<double>(rank)));
      x = net.blocks[1]->forward(net.blocks[0]->forward(x));
      return at::matmul(net.blocks[2]->forward(x), net.head).sum();
    };
    const auto plain = [](NetImpl& net, int64_t rank) {
      return net.forward(input(static_cast<double>(rank))).sum();
    };
    const auto two_forwards = [](NetImpl& net, int64_t rank) {
      const auto first = net.forward(input(static_cast<double>(rank)));
      return (first * net.forward(input(static_cast<double>(rank) + 9))).sum();
    };
    const auto unused_output = [](NetImpl& net, int64_t rank) {
      const auto x = net.blocks[0]->forward(input(static_cast<double>(rank)));
      net.blocks[1]->forward(x);
      return net.blocks[2]->forward(x).sum();  // and no head
    };
    const auto detached = [](NetImpl& net, int64_t rank) {
      const auto x = net.blocks[0]->forward(input(static_cast<double>(rank)));
      return net.blocks[1]->forward(x.detach()).sum();
    };
    const auto unused_on_one = [](NetImpl& net, int64_t rank) {
      auto loss = net.blocks[0]->forward(input(static_cast<double>(rank))).sum();
      if (rank == 1) loss = loss + net.head.sum() * 3;
      return loss;
    };
    for (const bool reshard : {true, false}) {
      const ShardOptions options{.reshard_after_forward = reshard};
      expect_same_gradients(world, options, plain);
      expect_same_gradients(world, options, twice);
      expect_same_gradients(world, options, two_forwards);
      expect_same_gradients(world, options, unused_output);
      expect_same_gradients(world, options, detached);
      expect_same_gradients(world, options, unused_on_one);
    }
  });
}

// Two graphs alive at once, each walked back by itself: what the second one saved was freed and
// gathered in between.
TEST(ShardedParamsTest, TwoForwardsThenTwoBackwards) {
  run_ranks(2, [](World& world) {
    NetImpl plain, net;
    ShardedParams shards(pieces_by_unit(net), world.all(), one_rank());
    const auto first = net.forward(input(1)).sum(), second = net.forward(input(2)).sum();
    for (const auto& loss : {second, first}) {
      go_backward(shards, loss, loss.is_same(first));
    }
    ((plain.forward(input(1)) + plain.forward(input(2))).sum() * 2).backward();
    expect_gradients_of(plain, shards);
  });
}

TEST(ShardedParamsTest, AGraphOfOldValuesIsRefused) {
  run_ranks(2, [](World& world) {
    NetImpl net;
    ShardedParams shards(pieces_by_unit(net), world.all(), one_rank());
    const auto loss = net.forward(input(1)).sum();
    shards.values_changed();
    EXPECT_THROW(loss.backward(), std::exception);
  });
}

// A parameter of two blocks belongs to none of them: it stays whole, and gets the sum.
TEST(ShardedParamsTest, SharedParameters) {
  run_ranks(2, [](World& world) {
    NetImpl plain, net;
    for (auto* one : {&plain, &net}) {
      one->blocks[2]->also = one->blocks[2]->register_parameter("also", one->blocks[0]->weight);
    }
    ShardedParams shards(pieces_by_unit(net), world.all(), one_rank());
    const auto loss = net.forward(input(1)).sum();
    go_backward(shards, loss);
    (plain.forward(input(1)).sum() * 2).backward();
    expect_gradients_of(plain, shards);
    EXPECT_TRUE(has_memory(net.blocks[0]->weight));
    EXPECT_FALSE(has_memory(net.blocks[0]->bias));
  });
}

TEST(ShardedParamsTest, PiecesOfAModel) {
  NetImpl net;
  const auto names = [](const std::vector<ParamPiece>& pieces) {
    std::vector<std::string> result;
    for (const auto& piece : pieces) {
      result.push_back(fmt::format("{}:{}", piece.name, piece.params.size()));
    }
    return result;
  };
  EXPECT_EQ(names(pieces_by_unit(net)),
            (std::vector<std::string>{"blocks.0:2", "blocks.1:2", "blocks.2:2",
                                      "the rest of the model:1"}));
  EXPECT_EQ(names(pieces_by_unit(net, {.min_num_params = 31})),
            (std::vector<std::string>{"the rest of the model:7"}));
  EXPECT_EQ(names(pieces_by_unit(net, {.min_num_params = 30})).size(), 4u);
  EXPECT_EQ(names(pieces_by_size(net, 8 * 26)),
            (std::vector<std::string>{"parameters from head:2", "parameters from blocks.0.bias:2",
                                      "parameters from blocks.1.bias:2",
                                      "parameters from blocks.2.bias:1"}));
  net.blocks[1]->weight.set_requires_grad(false);
  EXPECT_EQ(names(pieces_by_unit(net))[1], "blocks.1:1");
}

// One of two ranks, of which the other one never comes: notes what is under way, and moves nothing.
class NotingRanks : public Communicator {
 public:
  NotingRanks() : Communicator(0, 2) {}
  // The most collectives of a kind at a time since the last call.
  int64_t take_most(Collective kind) { return std::exchange(most_[kind], 0); }

 private:
  class Noted : public Pending {
   public:
    explicit Noted(int64_t& count) : count_(count) {}
    void wait() override { count_ -= 1; }

   private:
    int64_t& count_;
  };

  std::unique_ptr<Pending> start(const Request& request) override {
    auto& count = under_way_[request.collective];
    count += 1;
    most_[request.collective] = std::max(most_[request.collective], count);
    return std::make_unique<Noted>(count);
  }

  std::map<Collective, int64_t> under_way_, most_;
};

TEST(ShardedParamsTest, TwoGathersAndTwoReductionsAreUnderWay) {
  NotingRanks ranks;
  NetImpl net(5, 6);
  ShardedParams shards(pieces_by_unit(net), ranks, one_rank());
  for (const int64_t ahead : {1, 2}) {  // of the first step nobody knows what follows what
    const auto loss = net.forward(input(1)).sum();
    EXPECT_EQ(ranks.take_most(Collective::kAllGather), ahead);
    go_backward(shards, loss);
    EXPECT_EQ(ranks.take_most(Collective::kAllGather), 2);
    EXPECT_EQ(ranks.take_most(Collective::kReduceScatter), 2);
  }
}

// Most bytes during forward and backward of a net whose activations weigh nothing, over those of
// its parameters.
double peak_of_a_step(World& world, const ShardOptions& options, bool is_sharded) {
  constexpr int64_t kWidth = 200, kDepth = 16;
  const auto before = support::CountingAllocator::in_use.load();
  NetImpl net(kWidth, kDepth);
  std::unique_ptr<ShardedParams> shards;
  if (is_sharded) {
    shards = std::make_unique<ShardedParams>(pieces_by_unit(net), world.all(), one_rank(), options);
  }
  for (int step = 0; step < 2; ++step) {
    support::CountingAllocator::peak = support::CountingAllocator::in_use.load();
    const auto loss = net.forward(input(0, kWidth)).sum();
    if (shards) shards->before_backward(true);
    loss.backward();
    if (shards) shards->after_backward();
  }
  const double parameters = 8.0 * kDepth * kWidth * (kWidth + 1);
  return static_cast<double>(support::CountingAllocator::peak - before) / parameters;
}

TEST(ShardedParamsTest, MemoryFallsWithTheNumberOfRanks) {
  for (const int64_t ranks : {2, 4}) {
    run_ranks(ranks, [ranks](World& world) {
      support::count_cpu_memory();
      EXPECT_NEAR(peak_of_a_step(world, {}, false), 2.0, 0.1);  // weights and gradients
      const double share = 1.0 / static_cast<double>(ranks), piece = 1.0 / 16;
      // Beside its share of both: three pieces gathered, the gradients of one, twice while autograd
      // lays them out, and of two on their way what is sent and what comes; of more than two ranks
      // c10d's copies of two gathers, and of one that its thread has not let go of yet.
      const double come = ranks == 2 ? 0.5 : 1, of_c10d = ranks == 2 ? 0 : 3;
      const double most = 2 * share + (3 + 2 + 2 * (1 + come) + of_c10d) * piece;
      EXPECT_LT(peak_of_a_step(world, {}, true), most + 0.03);
      const double kept = peak_of_a_step(world, {.reshard_after_forward = false}, true);
      EXPECT_GT(kept, 1.0);
      EXPECT_LT(kept, 1.0 + most);
    });
  }
}

// Most bytes of a rank that has as many forwards without gradients as its number and one more,
// over those of the net's parameters: what a rank keeps of them is counted.
double peak_of_inference(World& world, ShardedParams& shards, NetImpl& net, int64_t width,
                         const ShardOptions& options) {
  const at::NoGradGuard no_grad;
  ShardedParams::InferenceScope inference(&shards, net);
  NetImpl plain(width, static_cast<int64_t>(net.blocks.size()));
  const auto before = support::CountingAllocator::in_use.load();
  support::CountingAllocator::peak = before;
  for (int64_t i = 0; i <= world.rank(); ++i) {
    const auto x = input(static_cast<double>(i), width);
    EXPECT_TRUE(net.forward(x).equal(plain.forward(x)));
  }
  inference.finish();
  for (const auto& param : shards.params()) {
    const bool is_whole = param.name == "head" || !options.reshard_after_forward;
    EXPECT_EQ(has_memory(param.whole), is_whole) << param.name;
  }
  // All alike, once more: what follows an evaluation.
  EXPECT_TRUE(net.forward(input(7, width)).equal(plain.forward(input(7, width))));
  inference.finish();
  const double parameters = 8.0 * static_cast<double>(net.blocks.size() * width * (width + 1));
  return static_cast<double>(support::CountingAllocator::peak - before) / parameters;
}

TEST(ShardedParamsTest, ForwardsWithoutGradientsGatherPieceByPiece) {
  constexpr int64_t kWidth = 200, kDepth = 16;
  for (const int64_t ranks : {2, 4}) {
    run_ranks(ranks, [](World& world) {
      support::count_cpu_memory();
      for (const bool is_trained : {false, true}) {  // then it fetches ahead
        NetImpl net(kWidth, kDepth);
        ShardedParams shards(pieces_by_unit(net), world.all(), one_rank(), {});
        if (is_trained) {
          const auto loss = net.forward(input(0, kWidth)).sum();
          go_backward(shards, loss);
        }
        world.all().reset_counts();
        const double peak = peak_of_inference(world, shards, net, kWidth, {});
        // Pieces whole: the one that is used, and two that follow it; of more than two ranks
        // c10d's copies of those on their way, and of one that its thread has not let go of yet.
        const int64_t whole = is_trained ? 3 : 1, of_c10d = is_trained ? 3 : 2;
        const auto most = static_cast<double>(whole + (world.size() > 2 ? of_c10d : 0));
        EXPECT_LT(peak, most / kDepth + 0.01);
        // Of as many forwards as the last rank has, and of the one behind.
        const auto gathers = world.all().counts().at(Collective::kAllGather).calls;
        EXPECT_EQ(gathers, kDepth * (world.size() + 1));
      }
      const ShardOptions kept{.reshard_after_forward = false};
      NetImpl net(kWidth, kDepth);
      ShardedParams shards(pieces_by_unit(net), world.all(), one_rank(), kept);
      EXPECT_LT(peak_of_inference(world, shards, net, kWidth, kept), 0.1);  // gathered before
    });
  }
}

// What a rank has of all pieces is one buffer, in which sums of gradients arrive: the first of a
// step written, others added.
TEST(ShardedParamsTest, PartsAndTheirGradientsAreViewsOfFlatBuffers) {
  run_ranks(2, [](World& world) {
    NetImpl plain, net;
    ShardedParams shards(pieces_by_unit(net), world.all(), one_rank());
    const auto& buffers = shards.buffers();
    buffers.gradients.fill_(1e9);  // of nobody: no part has a gradient yet
    for (int pass = 1; pass <= 2; ++pass) {
      const auto loss = net.forward(input(1)).sum();
      go_backward(shards, loss);
      (plain.forward(input(1)).sum() * 2).backward();
      expect_gradients_of(plain, shards, std::to_string(pass));
    }
    auto between = buffers.values.clone(), of_gradients = buffers.gradients.clone();
    for (const auto& param : shards.params()) {
      EXPECT_TRUE(param.part.is_alias_of(buffers.values)) << param.name;
      EXPECT_TRUE(param.part.grad().is_alias_of(buffers.gradients)) << param.name;
      EXPECT_EQ(param.part.storage_offset(), param.begin) << param.name;
      EXPECT_EQ(param.part.grad().storage_offset(), param.begin) << param.name;
      EXPECT_EQ(param.begin % kernels::kFlatAlignment, 0) << param.name;
      for (auto* buffer : {&between, &of_gradients}) {
        buffer->narrow(0, param.begin, param.part.numel()).zero_();
      }
    }
    EXPECT_TRUE(between.eq(0).all().item<bool>() && of_gradients.eq(0).all().item<bool>());
  });
}

// A copy in bfloat16 is what is gathered; values_changed() makes it anew unless it is told that
// somebody has.
TEST(ShardedParamsTest, ACopyInAnotherDtypeIsGathered) {
  run_ranks(2, [](World& world) {
    NetImpl net;
    ShardedParams shards(gathered_in(pieces_by_unit(net), at::kBFloat16), world.all(), one_rank());
    const at::NoGradGuard no_grad;
    const auto& buffers = shards.buffers();
    const auto gathered = [&] {
      const ShardedParams::WholeScope whole(&shards);
      EXPECT_EQ(net.blocks[1]->weight.scalar_type(), at::kBFloat16);
      return net.blocks[1]->weight.to(at::kDouble);
    };
    const auto one_tenth = at::full({5, 5}, 0.1, at::kDouble).to(at::kBFloat16).to(at::kDouble);
    EXPECT_TRUE(gathered().equal(one_tenth));
    buffers.values.fill_(2);
    buffers.copy.fill_(3);
    shards.values_changed(/*has_copy=*/true);
    EXPECT_TRUE(gathered().equal(at::full({5, 5}, 3, at::kDouble)));
    shards.values_changed();
    EXPECT_TRUE(gathered().equal(at::full({5, 5}, 2, at::kDouble)));
    EXPECT_TRUE(net.blocks[1]->bias.scalar_type() == at::kDouble);
  });
}

// Half the bytes of float32, and the same sums.
TEST(ShardedParamsTest, GradientsOfWhatWasGatheredInBFloat16TravelInIt) {
  run_ranks(2, [](World& world) {
    NetImpl net;
    ShardedParams shards(gathered_in(pieces_by_unit(net), at::kBFloat16), world.all(), one_rank());
    std::string told;
    world.all().set_check([&](const std::string& collective) { told += collective + "\n"; });
    shards.before_backward(/*is_last=*/true);
    const auto gradient = at::full({5, 5}, 0.1, at::kDouble).to(at::kBFloat16);
    net.blocks[1]->weight.mutable_grad() = gradient;
    shards.after_backward();
    EXPECT_THAT(told,
                ::testing::ContainsRegex("reduce_scatter of gradients of blocks\\.1.*, 64 bytes "
                                         "into 128 of BFloat16"));
    for (const auto& param : shards.params()) {
      if (param.name != "blocks.1.weight") continue;
      const auto sum = 2 * gradient[0][0].to(at::kDouble);
      EXPECT_TRUE(param.part.grad().eq(sum).all().item<bool>()) << param.part.grad();
    }
    world.all().set_check({});
  });
}

TEST(ShardedParamsTest, BFloat16GradientsAreSummedInFloat32) {
  run_ranks(3, [](World& world) {
    NetImpl net;
    ShardedParams shards(pieces_by_unit(net), world.all(), one_rank(),
                         {.wire_dtype = at::kBFloat16});
    world.all().reset_counts();
    shards.before_backward(true);
    // 256 + 1 + 1: a sum in bfloat16 that rounds after each addition stays at 256.
    (net.head.sum() * (world.rank() == 0 ? 256 : 1)).backward();
    shards.after_backward();
    for (const auto& [name, count] : world.all().counts())
      EXPECT_EQ(name, Collective::kReduceScatter);
    const auto grads = joined_grads(shards);
    EXPECT_TRUE(grads.at("head").equal(at::full({5}, 258, at::kDouble))) << grads.at("head");
    EXPECT_TRUE(grads.at("blocks.1.weight").equal(at::zeros({5, 5}, at::kDouble)));
    // The same over copies that have parts of their own.
    NetImpl outer_net;
    ShardedParams outer(pieces_by_size(outer_net), one_rank(), world.all(),
                        {.wire_dtype = at::kBFloat16, .outer = &world.all()});
    outer.before_backward(true);
    (outer_net.head.sum() * (world.rank() == 0 ? 256 : 1)).backward();
    outer.after_backward();
    EXPECT_TRUE(joined_grads(outer).at("head").equal(at::full({5}, 258, at::kDouble)));
  });
}

using CudaShardedParamsTest = support::GpuTest<>;

// Parts and their gradients on the host, what is gathered on the GPU.
void expect_offloaded(World& world, bool has_outer_parts) {
  NetImpl plain, net;
  net.to(at::kCUDA);
  auto* outer = has_outer_parts ? &world.all() : nullptr;
  ShardedParams shards(pieces_by_unit(net), outer ? one_rank() : world.all(),
                       outer ? world.all() : one_rank(), {.cpu_offload = true, .outer = outer});
  shards.values_changed();
  const auto loss = net.forward(input(1).to(at::kCUDA)).sum();
  go_backward(shards, loss);
  (plain.forward(input(1)).sum() * 2).backward();
  const auto expected = plain_grads(plain);
  for (const auto& [name, grad] : joined_grads(shards)) {
    EXPECT_TRUE(at::allclose(grad, expected.at(name), 1e-9, 1e-12)) << name;
  }
  for (const auto& param : shards.params()) {
    EXPECT_TRUE(param.part.is_cpu() && param.part.grad().is_cpu()) << param.name;
    EXPECT_TRUE(param.part.numel() == 0 || param.part.is_pinned()) << param.name;
    EXPECT_TRUE(param.whole.is_cuda()) << param.name;
  }
}

TEST_F(CudaShardedParamsTest, OffloadedFromAGpu) {
  run_ranks(2, [](World& world) {
    expect_offloaded(world, false);
    expect_offloaded(world, true);
  });
}

TEST(ShardedParamsTest, CopiesOfShardsAddUp) {
  run_ranks(4, [](World& world) {
    const auto shard = world.make_group(world.rank() < 2 ? std::vector<int64_t>{0, 1}
                                                         : std::vector<int64_t>{2, 3});
    const auto copies = world.make_group(world.rank() % 2 == 0 ? std::vector<int64_t>{0, 2}
                                                               : std::vector<int64_t>{1, 3});
    NetImpl plain;
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (int rank = 0; rank < 4; ++rank) sum = sum + plain.forward(input(rank)).sum() * 2;
    sum.backward();
    const auto expected = plain_grads(plain);
    for (auto* outer : {static_cast<Communicator*>(nullptr), &world.all()}) {
      NetImpl net;
      ShardedParams shards(pieces_by_unit(net), *shard, *copies, {.outer = outer});
      copies->reset_counts();
      for (const bool is_last : {false, true}) {
        const auto loss = net.forward(input(static_cast<double>(world.rank()))).sum();
        go_backward(shards, loss, is_last);
      }
      for (const auto& [name, grad] : joined_grads(shards)) {
        EXPECT_TRUE(at::allclose(grad, expected.at(name), 1e-12, 1e-14)) << name;
      }
      const auto sums = outer ? Collective::kReduceScatter : Collective::kAllReduce;
      EXPECT_EQ(copies->counts().at(sums).calls, shards.num_pieces());
      EXPECT_EQ(copies->counts().size(), 1u);
    }
  });
}

// What one copy's part became, all of them compute with.
TEST(ShardedParamsTest, OuterPartsThatChangedReachEveryCopy) {
  run_ranks(4, [](World& world) {
    const auto shard = world.make_group(world.rank() < 2 ? std::vector<int64_t>{0, 1}
                                                         : std::vector<int64_t>{2, 3});
    const auto copies = world.make_group(world.rank() % 2 == 0 ? std::vector<int64_t>{0, 2}
                                                               : std::vector<int64_t>{1, 3});
    const at::NoGradGuard no_grad;
    NetImpl plain, net;
    ShardedParams shards(pieces_by_unit(net), *shard, *copies, {.outer = &world.all()});
    for (const auto& item : plain.named_parameters()) {
      item.value().copy_(at::arange(item.value().numel(), at::kDouble).sin().view_as(item.value()));
    }
    const auto weights = plain.named_parameters();
    int64_t num_own = 0;
    for (const auto& param : shards.params()) {
      param.part.detach().copy_(
          weights[param.name].reshape({-1}).narrow(0, param.first, param.part.numel()));
      num_own += param.part.numel();
    }
    shards.values_changed();
    EXPECT_TRUE(net.forward(input(3)).equal(plain.forward(input(3))));
    const ShardedParams::WholeScope whole(&shards);
    for (const auto& item : net.named_parameters()) {
      EXPECT_TRUE(item.value().equal(weights[item.key()])) << item.key();
    }
    std::array all = {static_cast<double>(num_own)};
    sum_over_ranks(world.all(), all, "elements");
    EXPECT_EQ(all[0], 3 * 30 + 5);  // each once
  });
}

}  // namespace
}  // namespace fovea::parallel
