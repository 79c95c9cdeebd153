// What a misspelt word was meant to be: the nearest of the words that are known, of keys, commands,
// options, models and files alike.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Edits (insert, delete, replace, swap neighbours) that lead from a to b.
size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `known` if it is near enough to be meant, or else the first that begins with
// `word`; else empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "did you mean X?" with the nearest of `known`, or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);
// The same behind a clause: "; did you mean X?", or nothing.
std::string or_did_you_mean(std::string_view word, const std::vector<std::string>& known);

// For an unknown key of a section with keys `known`: the nearest there, or "optim.lr" where the key
// (or one close to it) belongs to another section; else empty. all_keys: full keys of the config.
std::string nearest_key(std::string_view key, const std::vector<std::string>& known,
                        const std::vector<std::string>& all_keys);

// Of a path under which nothing stands: the one that does, where each name that is not there has a
// near one in its folder; else empty. Names that differ in a digit are not each other's: the files
// of a data set are numbered.
std::string nearest_path(const std::string& path);
// "; did you mean X?" with it, or nothing.
std::string or_nearest_path(const std::string& path);

}  // namespace fovea
