// The heads of sequences whose q, k and v lie side by side.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fovea/kernels/cpu/product_sizes.h"
#include "fovea/kernels/saved_activation.h"

namespace fovea::kernels {

// S sequences one behind another, H heads, K head_dim. The samples of a batch [B, N, 3 H K] are B
// sequences of N tokens.
struct AttentionHeads {
  int64_t H, K;
  std::vector<int64_t> offsets;  // [S + 1] first token of each sequence, and their end
  int64_t num_queries;           // the first tokens of each, which alone ask; 0: all of them

  // qkv: [.., 3 H K]. num_queries: of sequences that have as many tokens at least.
  AttentionHeads(const at::Tensor& qkv, int64_t num_heads, std::vector<int64_t> offsets_in,
                 int64_t num_queries_in)
      : H(num_heads),
        K(qkv.size(-1) / (3 * num_heads)),
        offsets(std::move(offsets_in)),
        num_queries(num_queries_in) {}

  // Of all sequences; those of the first one come first.
  int64_t count() const { return (static_cast<int64_t>(offsets.size()) - 1) * H; }
  // N of a head's sequence.
  int64_t tokens(int64_t head) const { return offsets[head / H + 1] - offsets[head / H]; }
  // Q of a head's sequence.
  int64_t queries(int64_t head) const { return num_queries > 0 ? num_queries : tokens(head); }

  // Where a head begins in a tensor with `parts` H K values for each token, of queries alone where
  // it is one part: its first element in part number `which`, and how far its rows are apart.
  int64_t first(int64_t head, int64_t which, int64_t parts) const {
    const int64_t token = parts > 1 ? offsets[head / H] : first_query(head);
    return token * stride(parts) + which * H * K + (head % H) * K;
  }
  int64_t stride(int64_t parts) const { return parts * H * K; }
  // How many values behind that one the head begins that a thread takes next; 0: it is the last.
  int64_t to_next(int64_t head, int64_t which, int64_t parts) const {
    return head + 1 == count() ? 0 : first(head + 1, which, parts) - first(head, which, parts);
  }
  // Where a head begins in a tensor with one value for each head of each query.
  int64_t first_of_sums(int64_t head) const {
    return first_query(head) * H + (head % H) * queries(head);
  }

  // For the result [B, Q, H K].
  at::Tensor empty_out(const at::Tensor& qkv) const {
    return at::empty({qkv.size(0), queries_in(qkv), H * K}, qkv.options());
  }
  // For a value of each head of each query, which the backward pass reads; undefined where there is
  // none.
  at::Tensor empty_sums(const at::Tensor& qkv) const {
    if (!is_backward_recorded()) return {};
    return at::empty({qkv.size(0) * queries_in(qkv) * H}, qkv.options().dtype(at::kFloat));
  }

  // Scores of one head of all sequences.
  int64_t num_scores() const {
    int64_t sum = 0;
    for (int64_t head = 0; head < count(); head += H) sum += queries(head) * tokens(head);
    return sum;
  }
  // Heads that together have about so many scores.
  int64_t grain(int64_t scores) const {
    const int64_t mean = num_scores() * H / std::max<int64_t>(1, count());
    return std::max<int64_t>(1, scores / std::max<int64_t>(1, mean));
  }
  // Into how many parts the queries of each head are cut, so that all threads have as much of few
  // heads. With each part the keys and values of its head are packed. Bits do not depend on it.
  int64_t parts_of_queries() const {
    constexpr int64_t kMostParts = 8, kLeastQueries = 32;
    constexpr double kPacking = 20;  // takes as long as so many queries
    const int64_t heads = std::max<int64_t>(1, count());
    const int64_t mean =
        num_queries > 0 ? num_queries : (offsets.back() - offsets.front()) * H / heads;
    const auto time = [&](int64_t parts) {  // until all are done
      return static_cast<double>(cpu::parts_of(heads * parts, at::get_num_threads())) *
             (static_cast<double>(mean) / static_cast<double>(parts) + kPacking);
    };
    int64_t best = 1;
    for (int64_t parts = 2; parts <= std::min(kMostParts, mean / kLeastQueries); ++parts) {
      if (time(parts) < time(best)) best = parts;
    }
    return best;
  }
  // Of `products` products of [N, K] and [K, N], or of [N, N] and [N, K], in each head.
  double flops(int products) const {
    return 2.0 * products * static_cast<double>(num_scores() * H) * static_cast<double>(K);
  }

 private:
  // Of all queries, where the first one of a head's sequence is.
  int64_t first_query(int64_t head) const {
    return num_queries > 0 ? head / H * num_queries : offsets[head / H];
  }
  // Of a row of qkv.
  int64_t queries_in(const at::Tensor& qkv) const {
    return num_queries > 0 ? num_queries : qkv.size(1);
  }
};

// B sequences of N tokens: 0, N, 2 N, ... B N.
inline std::vector<int64_t> even_offsets(int64_t B, int64_t N) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b <= B; ++b) offsets.push_back(b * N);
  return offsets;
}

}  // namespace fovea::kernels
