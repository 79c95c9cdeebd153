// All that a program that trains or predicts is written with. Each line also is a header to include
// by itself, which compiles faster; docs/library.md has examples.
#pragma once

#include "fovea/config/config.h"             // load_config, dump_config: recipes as structs
#include "fovea/core/error.h"                // Error and its children
#include "fovea/data/loader.h"               // batches of a data set
#include "fovea/data/loader_setup.h"         // data sets as recipes name them
#include "fovea/inference/predictor.h"       // a trained model that answers
#include "fovea/models/own_model.h"          // register_model: a model of one's own
#include "fovea/models/registry.h"           // build_model, list_models
#include "fovea/models/weights.h"            // load_weights, of any system
#include "fovea/optim/ema.h"                 // averages of weights
#include "fovea/optim/optimizer.h"           // AdamW and the others
#include "fovea/optim/schedules.h"           // the learning rate over a run
#include "fovea/parallel/mesh.h"             // processes as dp_replicate x dp_shard x cp x tp
#include "fovea/parallel/world.h"            // all processes of a run
#include "fovea/train/evaluate/evaluator.h"  // metrics over a data set
#include "fovea/train/ranks.h"          // the mesh of a recipe, and which samples a process reads
#include "fovea/train/recipe/config.h"  // TrainConfig: a recipe
#include "fovea/train/recipe/inference.h"   // a trained model with its preprocessing
#include "fovea/train/recipe/run_folder.h"  // load_any_config: of a recipe or a run folder
#include "fovea/train/run/phases.h"         // several trainings, one after the other
#include "fovea/train/session.h"            // a recipe's data, model, task and optimizer
#include "fovea/train/state/mesh_state.h"   // model, optimizer and the rest, on a mesh
#include "fovea/train/step/step.h"          // one step: prepare, apply
#include "fovea/train/trainer.h"            // the whole run
