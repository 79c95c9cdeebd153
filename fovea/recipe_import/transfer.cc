// T2T-ViT's transfer_learning.py: SGD from weights with another head, on CIFAR, at two rates.
#include <fmt/format.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/recipe_import/timm.h"

namespace fovea::recipe_import {
namespace {

// Python's truth of the text of a flag: even "False" is true there.
bool transfers(const Importer& in) { return !in.text("transfer_learning").empty(); }

double side_of_transfer(const Importer& in) { return in.number("img_size", 224); }

ImportRule of_transfer(const std::string& target, const std::string& note) {
  return {"", "", [=](Importer& in, const std::string&, const ConfigNode&) {
            if (!transfers(in)) return in.refused("--transfer-learning is not given, as there");
            note.empty() ? in.mapped(target) : in.changed(target, note);
          }};
}

ImportRules transfer_rules() {
  ImportRules rules = {
      {"script", part_of("optim.name", "SGD from weights with another head, on CIFAR, 60 epochs")},
      {"lr", to("optim.lr")},
      {"wd", to("optim.weight_decay", "with decay_all, as there")},
      {"min_lr", part_of("schedule.min_lr",
                         "the rate changes with each step, there with each epoch; a backbone's "
                         "ends at its share of it, there at the whole")},
      {"dataset", part_of("data.train, data.val", "CIFAR in ./data, which is not downloaded here")},
      {"b", to("data.global_batch_size")},
      {"resume", refuse("the same command goes on with a run by itself")},
      {"r", refuse("the same command goes on with a run by itself")},
      {"num_classes", part_of("model.num_classes", "those of the data set, as there")},
      {"model", part_of("model.preset")},
      {"drop", to("model.proj_drop_rate")},
      {"drop_path", to("model.drop_path_rate")},
      {"img_size", to("model.img_size")},
      {"initial_checkpoint", part_of("init.weights")},
      {"pretrained",
       refuse_unless("false", "nothing is downloaded; give the file to init.weights")},
      {"gp", refuse_unless("token", "T2T-ViT's head sees the class token")},
      {"drop_connect", refuse_unless("null", "an old name of drop_path")},
      {"drop_block", refuse_unless("null", "of convolutional networks")},
      {"transfer_learning",
       part_of("init.skip_head, trainer.freeze",
               "the class token and the last norm stay as they are, as there")},
      {"transfer_model",
       of_transfer("init.weights",
                   "of a file with weights and their average the weights, there the average: "
                   "`fovea convert FILE OUT --key state_dict_ema` takes that")},
      {"transfer_ratio", of_transfer("optim.layer_decay_min_scale",
                                     "with layer_decay: all but the head learn so much slower")},
  };
  rules.merge(rules_of_many({"bn_tf", "bn_momentum", "bn_eps"},
                            refuse("a vision transformer has no batch norm")));
  return rules;
}

void set_transfer_data(Importer& in, const std::string& dataset) {
  const auto side = side_of_transfer(in);
  const std::string values =
      "{name: normalize, mean: [0.4914, 0.4822, 0.4465], std: [0.2023, 0.1994, 0.2010]}";
  const auto resize = fmt::format("{{name: resize, size: {}, interpolation: bilinear}}", side);
  const std::string path =
      dataset == "cifar100" ? "data/cifar-100-python.tar.gz" : "data/cifar-10-python.tar.gz";
  for (const std::string part : {"train", "val"}) {
    in.set("data." + part + ".format", "cifar_python");
    in.set_text("data." + part + ".path", path);
    in.set("data." + part + ".split", part == "train" ? "train" : "test");
  }
  in.set("data.train.transforms",
         fmt::format("[{}, {{name: random_crop, size: {}, padding: {}}}, horizontal_flip, {}]",
                     resize, side, std::floor(side / 8), values));
  in.set("data.val.transforms", fmt::format("[{}, {}]", resize, values));
  in.set("data.drop_last", "false");
}

}  // namespace

void import_transfer(Importer& in) {
  const auto dataset = in.text("dataset", "cifar10");
  if (dataset != "cifar10" && dataset != "cifar100") {
    fail<ConfigError>("--dataset {}: expected cifar10 or cifar100, as transfer_learning.py",
                      dataset);
  }
  const auto model = in_lower_case(in.text("model", "t2t_vit_14"));
  in.set("run.dir", "runs/transfer");
  in.set_text("run.dir", fmt::format("checkpoint_{}_{}", dataset, model));
  in.set("model.name", model.starts_with("t2t_vit") ? "t2t_vit" : "vit");
  in.set("model.preset", model);
  in.set("model.img_size", side_of_transfer(in));
  in.set("model.num_classes", dataset == "cifar100" ? "100" : "10");
  in.set("model.drop_path_rate", 0.1);
  in.set("task.name", "classification");
  set_transfer_data(in, dataset);
  in.set("data.global_batch_size", 128);
  in.set("optim.name", "sgd");
  in.set("optim.lr", 0.01);
  in.set("optim.momentum", 0.9);
  in.set("optim.weight_decay", 5e-4);
  in.set("optim.decay_all", "true");
  in.set("schedule.name", "cosine");
  in.set("schedule.min_lr", in.number("min_lr", 2e-4));
  in.set("trainer.max_epochs", 60);
  if (!in.text("initial_checkpoint").empty()) {
    in.set_text("init.weights", in.text("initial_checkpoint"));
  }
  if (transfers(in)) {
    in.set_text("init.weights", in.text("transfer_model"));
    in.set("init.skip_head", "true");
    const auto ratio = in.number("transfer_ratio", 0.01);
    in.set("optim.layer_decay", ratio);
    in.set("optim.layer_decay_min_scale", ratio);
    in.set("trainer.freeze", "[cls_token, \"norm.*\"]");
  }
  in.apply(transfer_rules());
}

}  // namespace fovea::recipe_import
