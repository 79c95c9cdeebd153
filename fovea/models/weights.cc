#include "fovea/models/weights.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>
#include <span>

#include "fovea/core/error.h"
#include "fovea/core/nearest.h"
#include "fovea/core/parallel_for.h"
#include "fovea/files/mapped_file.h"

namespace fovea::models {
namespace {

bool is_head(const std::string& name) {
  return name.starts_with("head.") || name.starts_with("head_dist.") ||
         name.starts_with("pre_logits.");
}

std::string shape_text(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

// The tensor that goes into `parameter`: the saved one, or one made to fit; undefined where it does
// not.
at::Tensor fit(const Model& model, const std::string& name, const at::Tensor& saved,
               const at::Tensor& parameter, const LoadOptions& options, LoadReport& report) {
  if (saved.sizes() == parameter.sizes()) {
    report.loaded.push_back(name);
    return saved;
  }
  // As many values are those of the same patches, on a grid or adaptive, in another order.
  const bool is_layout = saved.numel() == parameter.numel();
  const bool is_wanted = name.find("pos_embed") != name.npos ? options.resize_pos_embed
                                                             : options.adapt_in_chans || is_layout;
  const auto adapted = is_wanted ? model.adapt_parameter(name, saved) : at::Tensor();
  const auto change = fmt::format("{}: {} -> {}", name, shape_text(saved), shape_text(parameter));
  if (adapted.defined() && adapted.sizes() == parameter.sizes()) {
    report.adapted.push_back(change);
    return adapted;
  }
  report.mismatched.push_back(change);
  return {};
}

std::string section(const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<int64_t>(std::min(kShownNames, names.size())));
  auto text = fmt::format("\n  {:<11} {:>4}  {}", title, names.size(), fmt::join(shown, ", "));
  if (names.size() > kShownNames) text += ", ...";
  return text;
}

FittedWeights fit_file(const Model& model, const weights::FoveaWeights& file,
                       const std::string& path, const LoadOptions& options) {
  const auto source = file.naming.empty() || file.naming == "timm"
                          ? path
                          : fmt::format("{} ({})", path, weights::naming_named(file.naming).title);
  auto fitted = fit_weights(model, file.tensors, source, options);
  fitted.mapped = file.mapped;
  fitted.check_unchanged();  // some were adapted already
  auto& report = fitted.report;
  for (const auto* others : {&file.left_out, &file.report.left_out})
    report.left_out.insert(report.left_out.end(), others->begin(), others->end());
  report.notes = file.report.notes;
  return fitted;
}

// Of a mapped file what goes into parameters as it is: read, not mapped.
class ReadValues {
 public:
  explicit ReadValues(const MappedFile* mapped)
      : file_(mapped ? mapped->opened_again() : std::nullopt),
        bytes_(mapped ? std::as_bytes(mapped->bytes()) : std::span<const std::byte>()) {}

  // False: the value lies elsewhere, or is to be converted.
  bool add(const at::Tensor& value, const at::Tensor& parameter) {
    const auto* data = static_cast<const std::byte*>(value.const_data_ptr());
    const bool lies_here = file_ && data >= bytes_.data() && data < bytes_.data() + bytes_.size();
    const bool is_same = value.scalar_type() == parameter.scalar_type() && parameter.is_cpu() &&
                         value.is_contiguous() && parameter.is_contiguous();
    if (!lies_here || !is_same) return false;
    const std::span to(static_cast<uint8_t*>(parameter.data_ptr()), value.nbytes());
    const auto offset = static_cast<uint64_t>(data - bytes_.data());
    for (size_t done = 0; done < to.size(); done += kPieceBytes) {
      pieces_.push_back({offset + done, to.subspan(done, std::min(kPieceBytes, to.size() - done))});
    }
    parameter.unsafeGetTensorImpl()->bump_version();
    return true;
  }

  void read() const {
    parallel_for(std::ssize(pieces_), at::get_num_threads(), [this](int64_t i) {
      const auto& piece = pieces_[static_cast<size_t>(i)];
      file_->read(piece.offset, piece.to);
    });
  }

 private:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  struct Piece {
    uint64_t offset;
    std::span<uint8_t> to;
  };

  std::optional<InputFile> file_;
  std::span<const std::byte> bytes_;
  std::vector<Piece> pieces_;
};

LoadReport copy_into(Model& model, FittedWeights fitted) {
  const at::NoGradGuard no_grad;
  auto parameters = model.named_parameters();
  ReadValues values(fitted.mapped.get());
  for (const auto& [name, tensor] : fitted.tensors) {
    if (!values.add(tensor, parameters[name])) parameters[name].copy_(tensor);
  }
  values.read();
  fitted.check_unchanged();
  return std::move(fitted.report);
}

}  // namespace

std::string LoadReport::text() const {
  auto text = fmt::format("{} loaded", loaded.size()) + section("adapted", adapted) +
              section("skipped", skipped) + section("left out", left_out) +
              section("missing", missing) + section("unexpected", unexpected) +
              section("mismatched", mismatched);
  for (const auto& note : notes) text += fmt::format("\n  note: {}", note);
  return text;
}

FittedWeights fit_weights(const Model& model, const nn::NamedTensors& tensors,
                          const std::string& source, const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  auto [saved, kept, left_out] = select_weights(model, tensors, options.part);
  FittedWeights fitted;
  auto& report = fitted.report;
  report.left_out = std::move(left_out);
  std::vector<std::string> known;
  for (const auto& item : model.named_parameters()) {
    known.push_back(item.key());
    const auto found = saved.find(item.key());
    if (kept.contains(item.key()) || (options.skip_head && is_head(item.key()))) {
      report.skipped.push_back(item.key());
    } else if (found == saved.end()) {
      report.missing.push_back(item.key());
    } else if (auto value = fit(model, item.key(), found->second, item.value(), options, report);
               value.defined()) {
      fitted.tensors[item.key()] = value;
    }
    if (found != saved.end()) saved.erase(found);
  }
  for (const auto& [name, tensor] : saved) {
    if (options.skip_head && is_head(name)) {
      report.left_out.push_back(name);
      continue;
    }
    // Of those that are shown: each costs a comparison with every name of the model.
    const bool is_shown = report.unexpected.size() < kShownNames;
    const auto nearest = is_shown ? fovea::nearest(name, known) : std::string();
    report.unexpected.push_back(nearest.empty() ? name
                                                : fmt::format("{} (nearest: {})", name, nearest));
  }
  if (!report.is_complete()) {
    fail<CheckpointError>(
        "{}: these are weights of another model: {}\nCheck the model's name and options; "
        "init.skip_head leaves the classifier out, init.part: encoder everything but the encoder",
        source, report.text());
  }
  return fitted;
}

FittedWeights fit_weights(const Model& model, const std::string& path, const LoadOptions& options,
                          const weights::ReadOptions& reading) {
  auto with_names = reading;
  for (const auto& item : model.named_parameters()) with_names.known.insert(item.key());
  return fit_file(model, weights::read_weights(path, with_names), path, options);
}

LoadReport load_weights(Model& model, const nn::NamedTensors& tensors, const std::string& source,
                        const LoadOptions& options) {
  return copy_into(model, fit_weights(model, tensors, source, options));
}

LoadReport load_weights(Model& model, const weights::FoveaWeights& file, const std::string& path,
                        const LoadOptions& options) {
  return copy_into(model, fit_file(model, file, path, options));
}

LoadReport load_weights(Model& model, const std::string& path, const LoadOptions& options,
                        const weights::ReadOptions& reading) {
  return copy_into(model, fit_weights(model, path, options, reading));
}

nn::NamedTensors weights_of(const Model& model) {
  nn::NamedTensors weights;
  for (const auto& item : model.named_parameters())
    weights.emplace_back(item.key(), item.value().detach());
  return weights;
}

void save_weights(const Model& model, const std::string& path,
                  const std::map<std::string, std::string>& metadata) {
  auto with_format = metadata;
  with_format.emplace("format", "pt");  // what Python's loaders ask for
  nn::write_tensor_file(path, weights_of(model), with_format);
}

}  // namespace fovea::models
