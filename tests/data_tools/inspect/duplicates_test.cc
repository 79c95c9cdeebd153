#include "fovea/data_tools/inspect/duplicates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data_tools/inspect/choose_samples.h"
#include "tests/data_tools/inspect_support.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using testing::MemoryDataset;
using ::testing::Pair;
using testing::plain_image;

// The gray level says what the picture is.
std::vector<SampleRecord> records_of(const std::vector<std::pair<int, int>>& pictures) {
  std::vector<Sample> samples;
  for (const auto& [value, label] : pictures) {
    samples.push_back(plain_image(3, 3, 1, static_cast<uint8_t>(value), label));
  }
  return compute_statistics(MemoryDataset(samples, {"cat", "dog"})).records;
}

TEST(InspectDuplicatesTest, FindsWhatWasPlanted) {
  // train: 5 is there three times, 7 twice under two labels; val: 5 and 6 of train, 9 twice.
  const auto train = records_of({{5, 0}, {6, 1}, {5, 0}, {7, 0}, {7, 1}, {5, 0}, {8, 1}});
  const auto val = records_of({{9, 1}, {5, 0}, {6, 1}, {9, 1}, {4, 0}});
  const auto report = find_duplicates({{"train", &train}, {"val", &val}});
  ASSERT_EQ(report.sections.size(), 2u);
  EXPECT_EQ(report.sections[0].groups, 2);
  EXPECT_EQ(report.sections[0].copies, 3);
  EXPECT_THAT(report.sections[0].copies_of_class, ElementsAre(Pair(0, 2), Pair(1, 1)));
  EXPECT_EQ(report.sections[1].groups, 1);
  EXPECT_EQ(report.sections[1].copies, 1);
  EXPECT_EQ(report.shared_samples, 2);
  EXPECT_THAT(report.shared_of_class, ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_EQ(report.groups_with_several_labels, 1);
  ASSERT_EQ(report.groups.size(), 4u);
  EXPECT_TRUE(report.groups[0].is_shared);
  EXPECT_THAT(report.groups[0].samples, ElementsAre(SampleRef{0, 0, 0}, SampleRef{0, 2, 0},
                                                    SampleRef{0, 5, 0}, SampleRef{1, 1, 0}));
  EXPECT_TRUE(report.groups[1].is_shared);
  EXPECT_THAT(report.groups[1].samples, ElementsAre(SampleRef{0, 1, 1}, SampleRef{1, 2, 1}));
  EXPECT_TRUE(report.groups[2].has_several_labels);
  EXPECT_EQ(report.groups[3].samples[0], (SampleRef{1, 0, 1}));
}

TEST(InspectDuplicatesTest, SetsOfASectionCountTogether) {
  const auto a = records_of({{1, 0}, {2, 0}});
  const auto b = records_of({{2, 0}, {3, 0}});
  const auto val = records_of({{3, 0}});
  const auto report = find_duplicates({{"train", &a}, {"train", &b}, {"val", &val}});
  ASSERT_EQ(report.sections.size(), 2u);
  EXPECT_EQ(report.sections[0].copies, 1);
  EXPECT_EQ(report.shared_samples, 1);
}

TEST(InspectDuplicatesTest, NothingIsFoundWhereNothingIs) {
  const auto one = records_of({{1, 0}, {2, 0}});
  const auto report = find_duplicates({{"", &one}});
  EXPECT_TRUE(report.groups.empty());
  EXPECT_THROW(find_duplicates({{"a", &one}, {"b", &one}, {"c", &one}}), Error);
}

TEST(InspectDuplicatesTest, ALimitCutsTheListAndNotTheCounts) {
  std::vector<SampleRecord> records;
  for (int64_t i = 0; i < 20'000; ++i) {
    records.push_back({static_cast<uint64_t>(i % 10'000) * 977, i, 0});
  }
  const auto report = find_duplicates({{"train", &records}}, 5);
  EXPECT_EQ(report.sections[0].groups, 10'000);
  EXPECT_EQ(report.sections[0].copies, 10'000);
  ASSERT_EQ(report.groups.size(), 5u);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(report.groups[static_cast<size_t>(i)].samples[0].index, i);
  }
}

TEST(InspectChoiceTest, SubsetsAreEven) {
  EXPECT_THAT(even_subset(10, 4), ElementsAre(0, 2, 5, 7));
  EXPECT_THAT(even_subset(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(even_subset(3, 9), ElementsAre(0, 1, 2));
  EXPECT_TRUE(even_subset(0, 5).empty());
  const int64_t many = int64_t{1} << 61;
  EXPECT_THAT(even_subset(many, 4), ElementsAre(0, many / 4, many / 2, many / 4 * 3));
}

TEST(InspectChoiceTest, EveryClassIsShown) {
  std::vector<SampleRecord> records;
  for (int64_t i = 0; i < 90; ++i) records.push_back({0, i, i % 9 == 0 ? 2 : 0});
  records.push_back({0, 90, -1});
  const auto chosen = choose_by_class(records, 6);
  EXPECT_EQ(chosen.per_class, 3);
  std::vector<int64_t> indices;
  for (const auto& record : chosen.samples) indices.push_back(record.index);
  // Class 0 has 80 samples and class 2 ten: 0, 9, ..., 81.
  EXPECT_THAT(indices, ElementsAre(1, 30, 60, 0, 27, 54));
  // More classes than pictures: one of some.
  std::vector<SampleRecord> many;
  for (int64_t i = 0; i < 100; ++i) many.push_back({0, i, i});
  const auto few = choose_by_class(many, 4);
  EXPECT_EQ(few.per_class, 1);
  ASSERT_EQ(few.samples.size(), 4u);
  EXPECT_EQ(few.samples[3].label, 75);
  // No labels at all.
  for (auto& record : many) record.label = -1;
  EXPECT_EQ(choose_by_class(many, 4).per_class, 0);
  EXPECT_EQ(choose_by_class(many, 4).samples.size(), 4u);
  EXPECT_TRUE(choose_by_class(many, 0).samples.empty());
}

}  // namespace
}  // namespace fovea::data
