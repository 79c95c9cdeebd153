// The data section out of BioNeMo's configuration: images in the layout of Tiny-ImageNet, and as of
// its September 2025 the data set beans of Hugging Face, of which its program says all but the
// batch.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/recipe_import/bionemo.h"

namespace fovea::recipe_import {
namespace {

const std::string kTrainKeys = "dataset.train.transform_kwargs.";
const std::string kValKeys = "dataset.val.transform_kwargs.";

bool has_folders(const Importer& in) {
  return in.has("dataset.train.root") || in.has("dataset.train.class_map");
}

std::string file_of(const Importer& in, const std::string& key) {
  return std::filesystem::path(in.text(key)).filename().string();
}

// One number, or [height, width].
std::string size_of(const Importer& in, const std::string& from) {
  for (const auto& key : {from + "img_size", std::string("model.vit.img_size")}) {
    if (in.has(key)) return emit_yaml_flow(*in.find(key));
  }
  return "224";
}

// "" without normalisation: values from 0 to 1.
std::string normalize_of(const Importer& in, const std::string& from) {
  if (!in.flag(from + "normalize", true)) return "{name: normalize, mean: [0], std: [1]}";
  if (!in.has(from + "mean") && !in.has(from + "std")) return "{name: normalize, preset: imagenet}";
  return fmt::format("{{name: normalize, mean: [{}], std: [{}]}}",
                     fmt::join(in.numbers(from + "mean", {0.485, 0.456, 0.406}), ", "),
                     fmt::join(in.numbers(from + "std", {0.229, 0.224, 0.225}), ", "));
}

// The crop that train_crop_mode names, with timm's ranges where there are none.
std::string crop_of(const Importer& in) {
  const auto mode = in.text(kTrainKeys + "train_crop_mode", "rrc");
  if (mode != "rrc" && mode != "rkrc" && mode != "rkrr") {
    fail<ConfigError>("{}train_crop_mode: found {}; expected rrc, rkrc or rkrr", kTrainKeys, mode);
  }
  const bool is_rrc = mode == "rrc";
  const auto scale = in.numbers(kTrainKeys + "scale", {is_rrc ? 0.08 : 0.8, 1.0});
  const auto ratio =
      in.numbers(kTrainKeys + "ratio", {is_rrc ? 3.0 / 4 : 0.9, is_rrc ? 4.0 / 3 : 1 / 0.9});
  auto interpolation = in.text(kTrainKeys + "interpolation", "random");
  if (interpolation == "random" && is_rrc) interpolation = "bicubic";
  return fmt::format("{{name: {}, size: {}, scale: [{}, {}], ratio: [{}, {}], interpolation: {}}}",
                     is_rrc ? "random_resized_crop" : mode, size_of(in, kTrainKeys), scale.front(),
                     scale.back(), ratio.front(), ratio.back(), interpolation);
}

// One number for brightness, contrast and saturation, or one each, and of the hue a fourth.
std::string jitter_of(const Importer& in) {
  const auto values = in.numbers(kTrainKeys + "color_jitter", {0.4});
  if (values.size() != 1 && values.size() != 3 && values.size() != 4) {
    fail<ConfigError>("{}color_jitter: found {} numbers; expected one, three or four", kTrainKeys,
                      values.size());
  }
  if (values.size() == 1 && values[0] <= 0) return "";
  const auto at = [&](size_t i) { return values[values.size() == 1 ? 0 : i]; };
  const auto hue = values.size() == 4 ? fmt::format(", hue: {}", values[3]) : "";
  return fmt::format(
      ", {{name: color_jitter, brightness: {}, contrast: {}, saturation: {}{}, p: {}}}", at(0),
      at(1), at(2), hue, in.number(kTrainKeys + "color_jitter_prob", 1));
}

std::string train_transforms(const Importer& in) {
  auto list = fmt::format("[{}, {{name: horizontal_flip, p: {}}}", crop_of(in),
                          in.number(kTrainKeys + "hflip", 0.5));
  if (const auto p = in.number(kTrainKeys + "vflip", 0); p > 0) {
    list += fmt::format(", {{name: vertical_flip, p: {}}}", p);
  }
  list += jitter_of(in);
  if (const auto p = in.number(kTrainKeys + "grayscale_prob", 0); p > 0) {
    list += fmt::format(", {{name: grayscale, p: {}}}", p);
  }
  if (const auto p = in.number(kTrainKeys + "gaussian_blur_prob", 0); p > 0) {
    list += fmt::format(", {{name: gaussian_blur, p: {}, kernel_size: 23}}", p);
  }
  list += ", " + normalize_of(in, kTrainKeys);
  if (const auto p = in.number(kTrainKeys + "re_prob", 0); p > 0) {
    list += fmt::format(", {{name: random_erasing, p: {}, mode: {}, max_count: {}}}", p,
                        in.text(kTrainKeys + "re_mode", "const"),
                        in.number(kTrainKeys + "re_count", 1));
  }
  return list + "]";
}

std::string val_transforms(const Importer& in) {
  return fmt::format(
      "[{{name: eval_crop, size: {}, crop_pct: {}, crop_mode: {}, interpolation: {}}}, {}]",
      size_of(in, kValKeys), in.number(kValKeys + "crop_pct", 0.875),
      in.text(kValKeys + "crop_mode", "center"), in.text(kValKeys + "interpolation", "bilinear"),
      normalize_of(in, kValKeys));
}

// One folder with train, val and wnids.txt.
std::string tiny_imagenet_folder(const Importer& in) {
  auto root = in.text("dataset.train.root", "data/tiny-imagenet");
  for (const std::string end : {"/", "/train"}) {
    if (root.ends_with(end)) root.resize(root.size() - end.size());
  }
  return root;
}

void set_beans(Importer& in) {
  auto size = size_of(in, kTrainKeys);
  if (!size.starts_with('[')) size = fmt::format("[{0}, {0}]", size);
  const auto transforms = fmt::format(
      "[{{name: resize, size: {}, interpolation: bicubic}}, {{name: normalize, mean: [0], std: "
      "[1]}}]",
      size);
  for (const std::string part : {"train", "val"}) {
    in.set("data." + part + ".format", "folder");
    in.set_text("data." + part + ".path", part == "train" ? "beans/train" : "beans/validation");
    in.set("data." + part + ".transforms", transforms);
  }
  in.say(
      "data: the file names none, which is AI-Lab-Makerere/beans of Hugging Face there; unpack its "
      "train.zip and validation.zip into ./beans, or name another set in data.train and data.val");
}

// A list of classes, by the number of the line.
ImportRule class_map_rule(const std::string& target) {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            const auto file = file_of(in, key);
            const auto other = key.starts_with("dataset.train.") ? "dataset.val.class_map"
                                                                 : "dataset.train.class_map";
            if (in.has(other) && file_of(in, other) != file) {
              return in.refused("train and val have other maps of classes; expected the same");
            }
            if (file.empty() || file == "wnids.txt") {
              return in.mapped(target + ".classes", "wnids: those of wnids.txt");
            }
            if (file == "words.txt") {
              return in.mapped(target + ".classes, " + target + ".num_classes",
                               "words: each line of words.txt is a class, as there");
            }
            in.refused("expected words.txt or wnids.txt, which lie in the folder");
          }};
}

ImportRule label_map_rule() {
  return {"", "", [=](Importer& in, const std::string& key, const ConfigNode&) {
            const auto file = file_of(in, key);
            const std::string note = "val/val_annotations.txt is read by itself";
            file.empty() || file == "val_annotations.txt" ? in.mapped("", note) : in.refused(note);
          }};
}

}  // namespace

ImportRules bionemo_data_rules() {
  ImportRules rules = {
      {"dataset.num_classes", to("model.num_classes")},
      {"dataset.num_workers", to("data.threads", "threads, not processes")},
      {"dataset.train.batch_size",
       part_of("data.global_batch_size", "of one process there; times the data parallel ones")},
      {"dataset.train.shuffle", always("true", "training data is always permuted")},
      {"dataset.val.batch_size", needless(kEvalBatch)},
      {"dataset.val.shuffle", needless("an evaluation has no order")},
  };
  for (const std::string part : {"dataset.train.", "dataset.val."}) {
    const std::string target = part == "dataset.train." ? "data.train" : "data.val";
    rules[part + "root"] =
        part_of(target + ".path", "the folder that holds train, val and wnids.txt");
    rules[part + "class_map"] = class_map_rule(target);
    rules[part + "label_map"] = label_map_rule();
    rules[part + "class_filter"] = always("null", "every class that has images is read");
  }
  for (const auto* key : {"img_size", "scale", "ratio", "hflip", "vflip", "color_jitter", "re_prob",
                          "re_mode", "re_count", "grayscale_prob", "gaussian_blur_prob",
                          "train_crop_mode", "color_jitter_prob", "normalize", "mean", "std"}) {
    rules[kTrainKeys + key] = part_of("data.train.transforms");
  }
  rules[kTrainKeys + "interpolation"] =
      part_of("data.train.transforms", "random is bicubic for the crop");
  rules[kTrainKeys + "re_num_splits"] = refuse_unless("0", "an erased image has no clean twin");
  rules[kTrainKeys + "separate"] = refuse_unless("false", "transforms are one list");
  for (const auto* key :
       {"img_size", "crop_pct", "crop_mode", "interpolation", "mean", "std", "normalize"}) {
    rules[kValKeys + key] = part_of("data.val.transforms");
  }
  rules[kValKeys + "crop_border_pixels"] = refuse_unless("null", "borders come from crop_pct");
  for (const auto& from : {kTrainKeys, kValKeys}) {
    rules[from + "patchify"] = refuse_unless("false", "the model cuts images into patches");
    rules[from + "patch_size"] = needless("of patchify; the model cuts images into patches");
  }
  return rules;
}

void set_data_of_bionemo(Importer& in) {
  if (!has_folders(in)) return set_beans(in);
  const bool by_words = file_of(in, "dataset.train.class_map") == "words.txt";
  for (const std::string part : {"train", "val"}) {
    in.set("data." + part + ".format", "tiny_imagenet");
    in.set_text("data." + part + ".path", tiny_imagenet_folder(in));
    in.set("data." + part + ".split", part);
    if (!by_words) continue;
    in.set("data." + part + ".classes", "words");
    if (in.has("dataset.num_classes")) {
      in.set("data." + part + ".num_classes", *in.find("dataset.num_classes"));
    }
  }
  in.set("data.train.transforms", train_transforms(in));
  in.set("data.val.transforms", val_transforms(in));
}

}  // namespace fovea::recipe_import
