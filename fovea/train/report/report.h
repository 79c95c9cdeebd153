// The report of a run, or of several side by side: one HTML file that needs nothing else.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "fovea/train/report/run_data.h"

namespace fovea::train {

// The page of one run.
std::string render_report(const RunData& run);

// The page that holds several runs against each other: at least two.
std::string render_comparison(const std::vector<RunData>& runs);

// The page of a run of several phases (train/phases.h), as far as it has come: what each reached,
// its settings, and where its own page is. At least one.
std::string render_phases(const std::string& name, const std::vector<RunData>& phases);

// Reads the folders and writes the page, atomically, to `out`; where that is empty, to report.html
// in the folder of a single run, or to comparison.html in the working folder. A single run of
// phases gets their page. Returns the path.
// Throws DataError for a folder that holds no run, Error when the page cannot be written.
std::filesystem::path write_report(const std::vector<std::filesystem::path>& run_folders,
                                   const std::filesystem::path& out = {});

}  // namespace fovea::train
