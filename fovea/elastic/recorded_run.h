// An elastic run as it went, for `fovea elastic simulate`.
#pragma once

#include <filesystem>
#include <string>

#include "fovea/elastic/solve/cluster.h"
#include "fovea/elastic/solve/profile.h"
#include "fovea/elastic/solve/trace.h"

namespace fovea::elastic {

// Note [Recorded runs]
// events.jsonl says who came and went at which time, and how long members took for their own part
// of a step before; metrics.jsonl how long steps took, and what else took time between them. Each
// worker becomes a host with one device whose profile is a straight line through its own times:
// what goes with its rows is its own, the rest is alike for all of them. What is exchanged follows
// from the least time that a member was in collectives, and the lines are scaled so that on the
// mean over steps they come to the steps' times. Samples are counted as whole batches, so that the
// last, small one of an epoch is one like others.
//
// Rates, pauses and what else takes time are those of a first part of the run. The rest is a
// prediction: who came and went when is taken from the run, how far it came is not.
struct RecordedRun {
  Cluster cluster;
  ProfileSet profiles;
  Trace trace;
  double hours = 0;          // that the run took, from its first step to its last line
  double learned_hours = 0;  // of them, that rates are from
};

// first_part: of the run's samples, above 0 and at most 1. Throws DataError: RUN_DIR is of no
// elastic run, or of one that wrote no times, or its files are damaged.
RecordedRun read_recorded_run(const std::filesystem::path& run_dir, double first_part);

// trace.jsonl, config.json, cluster.json and profiles/ in a folder. Throws WriteError.
void write_recorded_run(const RecordedRun& run, const std::filesystem::path& folder);

}  // namespace fovea::elastic
