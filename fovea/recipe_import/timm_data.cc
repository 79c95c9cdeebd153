// timm's data sets and transforms.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/recipe_import/timm.h"

namespace fovea::recipe_import {
namespace {

std::string normalize_of(const Importer& in, const ModelInput& model) {
  const auto three = [&](const char* key, const std::vector<double>& otherwise) {
    const auto found = in.numbers(key, otherwise);
    return found.size() == 1 ? std::vector<double>(3, found.front()) : found;
  };
  return fmt::format("{{name: normalize, mean: [{}], std: [{}]}}",
                     fmt::join(three("mean", model.mean), ", "),
                     fmt::join(three("std", model.std), ", "));
}

// [height, width]; one number where they are the same.
std::string side_of(const Importer& in, const ModelInput& model) {
  const auto given = in.numbers("input_size");
  if (given.size() == 3) return fmt::format("[{}, {}]", given[1], given[2]);
  for (const auto* key : {"img_size", "model_kwargs.img_size"}) {
    if (in.has(key)) return emit_yaml_flow(*in.find(key));
  }
  const auto& own = model.img_size;
  return own.size() == 2 && own[0] != own[1] ? fmt::format("[{}, {}]", own[0], own[1])
                                             : fmt::format("{}", own.front());
}

std::string train_transforms_of_timm(const Importer& in, const TimmDefaults& defaults,
                                     const ModelInput& model) {
  auto interpolation = in.text("train_interpolation", "random");
  if (interpolation == "random" || interpolation.empty()) interpolation = "bicubic";
  const auto scale = in.numbers("scale", {0.08, 1.0});
  const auto ratio = in.numbers("ratio", {3.0 / 4, 4.0 / 3});
  if (in.flag("no_aug", false)) {
    interpolation = in.text("interpolation", "");
    if (interpolation.empty()) interpolation = model.interpolation;
    return fmt::format(
        "[{{name: resize, size: {0}, interpolation: {1}}}, "
        "{{name: center_crop, size: {0}}}, {2}]",
        side_of(in, model), interpolation, normalize_of(in, model));
  }
  const auto crop = in.text("train_crop_mode", "rrc");
  const bool keeps_ratio = crop == "rkrc" || crop == "rkrr";
  const auto given = in.text("train_interpolation", "random");
  auto list = fmt::format(
      "[{{name: {}, size: {}, scale: [{}, {}], ratio: [{}, {}], interpolation: {}}}",
      keeps_ratio ? crop : "random_resized_crop", side_of(in, model), scale.front(), scale.back(),
      ratio.front(), ratio.back(), keeps_ratio && !given.empty() ? given : interpolation);
  if (const auto p = in.number("hflip", 0.5); p > 0) {
    list += fmt::format(", {{name: horizontal_flip, p: {}}}", p);
  }
  if (const auto p = in.number("vflip", 0); p > 0) {
    list += fmt::format(", {{name: vertical_flip, p: {}}}", p);
  }
  const auto policy = in.text("aa", defaults.policy);
  const auto jitter = in.number("color_jitter", 0.4);
  if (!policy.empty()) list += fmt::format(", {{name: auto_augment, policy: {}}}", policy);
  if (jitter > 0 && (policy.empty() || policy.find("3a") != std::string::npos)) {
    list += fmt::format(
        ", {{name: color_jitter, brightness: {0}, contrast: {0}, saturation: {0}, p: {1}}}", jitter,
        in.number("color_jitter_prob", 1));
  }
  if (const auto p = in.number("grayscale_prob", 0); p > 0) {
    list += fmt::format(", {{name: grayscale, p: {}}}", p);
  }
  if (const auto p = in.number("gaussian_blur_prob", 0); p > 0) {
    list += fmt::format(", {{name: gaussian_blur, p: {}}}", p);
  }
  list += ", " + normalize_of(in, model);
  if (const auto p = in.number("reprob", defaults.reprob); p > 0) {
    list += fmt::format(", {{name: random_erasing, p: {}, mode: {}, max_count: {}}}", p,
                        in.text("remode", "pixel"), in.number("recount", 1));
  }
  return list + "]";
}

}  // namespace

void set_data_of_timm(Importer& in, const TimmDefaults& defaults, const TimmRun& run) {
  const auto model = model_input_of(in, defaults);
  const auto folder = in.text("data_dir", in.text("data", in.text("positional", "imagenet")));
  const auto split = [&](const char* key, const char* otherwise) {
    const auto name = in.text(key, otherwise);
    return name == "validation" ? "val" : name;
  };
  in.set("data.train.format", "folder");
  in.set_text("data.train.path", folder + "/" + split("train_split", "train"));
  in.set("data.train.transforms", train_transforms_of_timm(in, defaults, model));
  in.set("data.val.format", "folder");
  in.set_text("data.val.path", folder + "/" + split("val_split", "val"));
  auto interpolation = in.text("interpolation", "");
  if (interpolation.empty()) interpolation = model.interpolation;
  in.set(
      "data.val.transforms",
      fmt::format("[{{name: eval_crop, size: {}, crop_pct: {}, crop_mode: {}, interpolation: "
                  "{}}}, {}]",
                  side_of(in, model), in.number("crop_pct", model.crop_pct),
                  in.text("crop_mode", model.crop_mode), interpolation, normalize_of(in, model)));
  in.set("data.global_batch_size", run.batch);
  if (run.passes > 1) {
    in.set("trainer.micro_batch_size", std::max(1.0, run.batch / run.passes / run.processes));
    // Of JABAS's workers, which its program computes at the same time.
    if (in.number("num_models", 1) > 1) {
      in.set("trainer.concurrent_passes", in.number("num_models", 1));
    }
  }
  in.set("data.mixup.mixup_alpha", in.number("mixup", defaults.mixup));
  in.set("data.mixup.cutmix_alpha", in.number("cutmix", defaults.cutmix));
}

}  // namespace fovea::recipe_import
