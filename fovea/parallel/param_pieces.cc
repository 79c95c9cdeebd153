// Which parameters are gathered together.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "fovea/core/error.h"
#include "fovea/parallel/sharded_params.h"

namespace fovea::parallel {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Of the elements of lists: "blocks.3" of a list of blocks, which every forward goes through in
// order; others, such as the tokenisers of single variables, a forward may leave out.
enum class ListElement { kNone, kBlock, kOther };

ListElement list_element(const std::string& path) {
  const auto dot = path.rfind('.');
  if (dot == std::string::npos || !is_number(path.substr(dot + 1))) return ListElement::kNone;
  return path.substr(0, dot).ends_with("blocks") ? ListElement::kBlock : ListElement::kOther;
}

struct Units {
  std::vector<std::pair<std::string, nn::UnitImpl*>> list;  // in the model's order
  std::set<std::string> blocks, others;                     // elements of lists

  explicit Units(nn::UnitImpl& model) {
    for (const auto& item : nn::units_of(model)) {
      const auto& path = item.key();
      auto* unit = item.value();
      if (unit == &model) continue;
      list.emplace_back(path, unit);
      const auto element = list_element(path);
      if (element == ListElement::kBlock) blocks.insert(path);
      if (element == ListElement::kOther) others.insert(path);
    }
  }

  static bool is_inside(const std::string& path, const std::string& of) {
    return path.starts_with(of + ".");
  }
  bool has_block_inside(const std::string& path) const {
    return std::any_of(blocks.begin(), blocks.end(),
                       [&](const std::string& block) { return is_inside(block, path); });
  }
  // Whether its parameters are used in its own forward alone. Outside of blocks a model may take
  // weights themselves (the segmenters' heads), or call a part by other functions (the encoder).
  bool runs_by_itself(const std::string& path) const {
    return is_in_any(path, blocks) && !has_block_inside(path) && !is_in_any(path, others);
  }
  bool is_in_any(const std::string& path, const std::set<std::string>& of) const {
    return std::any_of(of.begin(), of.end(), [&](const std::string& other) {
      return path == other || is_inside(path, other);
    });
  }
};

using Params = std::vector<std::pair<std::string, at::Tensor>>;

Params trained_params(const nn::UnitImpl& model) {
  Params params;
  for (const auto& item : model.named_parameters()) {
    if (item.value().requires_grad()) params.emplace_back(item.key(), item.value());
  }
  return params;
}

// Parameters that stand under several names: no one unit has them.
std::set<const void*> shared_params(const Params& params) {
  std::set<const void*> seen, shared;
  for (const auto& [name, param] : params) {
    if (!seen.insert(param.unsafeGetTensorImpl()).second)
      shared.insert(param.unsafeGetTensorImpl());
  }
  return shared;
}

// Which parameters are a unit's: those below it, and what else it alone uses.
class Ownership {
 public:
  Ownership(const Units& units, const std::vector<GatheredUnit>& gathered) {
    for (const auto& unit : gathered) {
      const auto found = std::find_if(units.list.begin(), units.list.end(),
                                      [&](const auto& item) { return item.first == unit.path; });
      FOVEA_CHECK(found != units.list.end(),
                  "the model's partitioning gathers '{}', which is no unit of the model; expected "
                  "the path of one",
                  unit.path);
      also_[unit.path] = unit.also;
    }
  }

  bool is_gathered(const std::string& path) const { return also_.contains(path); }
  bool owns(const std::string& path, const std::string& name) const {
    if (Units::is_inside(name, path)) return true;
    const auto also = also_.find(path);
    return also != also_.end() &&
           std::find(also->second.begin(), also->second.end(), name) != also->second.end();
  }

 private:
  std::map<std::string, std::vector<std::string>> also_;  // by path
};

// The outermost units that are blocks, or large ones of those outside.
std::vector<std::string> chosen_units(const Units& units, const Ownership& ownership,
                                      const Params& params, int64_t least) {
  std::vector<std::string> chosen;
  for (const auto& item : units.list) {
    const auto& path = item.first;
    const auto is_within = [&](const std::string& other) { return Units::is_inside(path, other); };
    if (std::any_of(chosen.begin(), chosen.end(), is_within)) continue;
    int64_t size = 0;
    for (const auto& [name, param] : params) {
      if (ownership.owns(path, name)) size += param.numel();
    }
    const bool is_large = ownership.is_gathered(path) && size >= least;
    if (units.blocks.contains(path) || is_large) chosen.push_back(path);
  }
  return chosen;
}

// From the inside out: what is left of a unit beside the pieces within it.
std::vector<std::string> chosen_by_size(const Units& units, const Ownership& ownership,
                                        const Params& params, int64_t least) {
  std::vector<std::string> chosen;
  std::vector<bool> is_taken(params.size(), false);
  for (auto unit = units.list.rbegin(); unit != units.list.rend(); ++unit) {
    const auto& path = unit->first;
    if (!units.runs_by_itself(path) && !ownership.is_gathered(path)) continue;
    std::vector<size_t> own;
    int64_t left = 0;
    for (size_t i = 0; i < params.size(); ++i) {
      if (is_taken[i] || !ownership.owns(path, params[i].first)) continue;
      own.push_back(i);
      left += params[i].second.numel();
    }
    if (left < least) continue;
    chosen.push_back(path);
    for (const auto i : own) is_taken[i] = true;
  }
  return chosen;
}

}  // namespace

std::vector<ParamPiece> pieces_by_unit(nn::UnitImpl& model, const PieceOptions& options) {
  const Units units(model);
  const Ownership ownership(units, options.units);
  auto params = trained_params(model);
  const auto shared = shared_params(params);
  auto chosen = options.min_num_params > 0
                    ? chosen_by_size(units, ownership, params, options.min_num_params)
                    : chosen_units(units, ownership, params, options.least_params);
  // The innermost first, so that each takes what is its own.
  std::stable_sort(chosen.begin(), chosen.end(), [](const std::string& a, const std::string& b) {
    return std::count(a.begin(), a.end(), '.') > std::count(b.begin(), b.end(), '.');
  });
  std::map<std::string, ParamPiece> by_path;
  ParamPiece rest{.name = "the rest of the model", .params = {}};
  std::set<const void*> seen;
  for (auto& [name, param] : params) {
    if (!seen.insert(param.unsafeGetTensorImpl()).second) continue;
    const auto owner = std::find_if(chosen.begin(), chosen.end(), [&](const std::string& path) {
      return ownership.owns(path, name);
    });
    const bool is_own = owner != chosen.end() && !shared.contains(param.unsafeGetTensorImpl());
    (is_own ? by_path[*owner] : rest).params.emplace_back(name, param);
  }
  std::vector<ParamPiece> pieces;
  for (const auto& [path, unit] : units.list) {
    const auto found = by_path.find(path);
    if (found == by_path.end()) continue;
    pieces.push_back({.name = path,
                      .params = std::move(found->second.params),
                      .unit = unit,
                      .is_of_block = units.is_in_any(path, units.blocks)});
  }
  if (!rest.params.empty()) pieces.push_back(std::move(rest));
  return pieces;
}

std::vector<ParamPiece> gathered_in(std::vector<ParamPiece> pieces, at::ScalarType dtype) {
  std::vector<ParamPiece> result;
  for (auto& piece : pieces) {
    if (!piece.is_of_block) {
      result.push_back(std::move(piece));
      continue;
    }
    ParamPiece matrices{
        .name = "the matrices of " + piece.name, .params = {}, .unit = piece.unit, .dtype = dtype};
    ParamPiece others{.name = piece.name, .params = {}, .unit = piece.unit};
    for (auto& [name, param] : piece.params) {
      (param.dim() >= 2 ? matrices : others).params.emplace_back(name, param);
    }
    for (auto* part : {&matrices, &others}) {
      if (!part->params.empty()) result.push_back(std::move(*part));
    }
  }
  return result;
}

std::vector<ParamPiece> pieces_by_size(nn::UnitImpl& model, int64_t bytes) {
  std::vector<ParamPiece> pieces;
  int64_t size = bytes;  // of the piece being filled
  std::set<const void*> seen;
  for (auto& [name, param] : trained_params(model)) {
    if (!seen.insert(param.unsafeGetTensorImpl()).second) continue;
    if (size >= bytes) {
      pieces.push_back({.name = "parameters from " + name, .params = {}});
      size = 0;
    }
    size += static_cast<int64_t>(param.nbytes());
    pieces.back().params.emplace_back(name, param);
  }
  return pieces;
}

}  // namespace fovea::parallel
