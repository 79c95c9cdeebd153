#include "fovea/data/datasets/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/file_list_text.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/image/png.h"
#include "tests/data/archive_support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::golden;
using ::testing::HasSubstr;
using testing::image_file;
using testing::message_of;
using testing::TempDir;
using testing::to_bytes;

TEST(FileListParserTest, CsvWithAndWithoutAHeader) {
  const auto rows =
      parse_csv_list("a.jpg,3\r\n\r\n\"b, \"\"c\"\"\n.jpg\",4\nd.jpg,5", "l.csv").rows;
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].path, "a.jpg");
  EXPECT_EQ(rows[0].label, "3");
  EXPECT_FALSE(rows[0].mask);
  EXPECT_EQ(rows[1].path, "b, \"c\"\n.jpg");
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_EQ(rows[2].line, 5);
  const auto named = parse_csv_list("\xef\xbb\xbfmask,id,path\nm.png,7,a.png\n", "l.csv").rows;
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0].path, "a.png");
  EXPECT_EQ(named[0].mask, "m.png");
  EXPECT_FALSE(named[0].label);
  EXPECT_TRUE(parse_csv_list("", "l.csv").rows.empty());
}

TEST(FileListParserTest, BadCsvIsNamedWithTheLine) {
  const auto error = [](const std::string& text) {
    return message_of<DataError>([&] { parse_csv_list(text, "l.csv"); });
  };
  EXPECT_THAT(error("a,1\nb\n"), HasSubstr("l.csv:2: 1 fields; expected 2"));
  EXPECT_THAT(error("a,1,m,x\n"), HasSubstr("l.csv:1: 4 fields"));
  EXPECT_THAT(error("a,1\n,2\n"), HasSubstr("l.csv:2: the path is empty"));
  EXPECT_THAT(error("a,1\n\"b,2\n"), HasSubstr("l.csv:2: a quote that does not close"));
  EXPECT_THAT(error("\"a\"b,1\n"), HasSubstr("l.csv:1: text after a closing quote"));
  EXPECT_THAT(error("a\rb,1\n"), HasSubstr("l.csv:1: a carriage return"));
}

TEST(FileListParserTest, HeadersOfOtherPrograms) {
  const auto first = [](const std::string& text) { return parse_csv_list(text, "l.csv"); };
  const auto list = first("file,class\na.jpg,cat\n");
  ASSERT_EQ(list.rows.size(), 1u);
  EXPECT_EQ(list.rows[0].path, "a.jpg");
  EXPECT_EQ(list.rows[0].label, "cat");
  EXPECT_EQ(list.note,
            "l.csv:1: the first line names the columns: path is \"file\", label is \"class\"");
  // pandas numbers the lines in a column without a name; order and case are free.
  const auto pandas = first(",Target,fold, File Name \n0, 7 ,1,b.png\n").rows;
  ASSERT_EQ(pandas.size(), 1u);
  EXPECT_EQ(pandas[0].path, "b.png");
  EXPECT_EQ(pandas[0].label, "7");
  EXPECT_EQ(first("image,segmentation\na.nii,b.nii\n").rows.front().mask, "b.nii");
  EXPECT_EQ(first("id,label\na.png,1\n").rows.size(), 1u);
  EXPECT_EQ(first("\"img\",\"label\"\r\n\"a,b.png\",\"x\"\r\n").rows.front().path, "a,b.png");
  // The usual names need no word.
  EXPECT_EQ(first("path,label,mask\na.png,1,m.png\n").note, "");
  EXPECT_EQ(first("filename,path\nx,a.png\n").rows.front().path, "a.png");
  EXPECT_EQ(first("path,score1.0\na.png,0.5\n").rows.size(), 1u);
  // Data whose label is such a word.
  EXPECT_EQ(first("a.jpg,image\nb.jpg,class\n").rows.size(), 2u);
  EXPECT_EQ(first("a.jpg,path\nb.jpg,path\n").rows.size(), 2u);
}

TEST(FileListParserTest, AFirstLineThatNamesNoFileIsAHeader) {
  const auto exists = [](const std::string& path) {
    return path == "a.jpg" || path == "b" || path == "image";
  };
  const auto list = parse_csv_list("bild,klasse\na.jpg,3\n", "l.csv", exists);
  ASSERT_EQ(list.rows.size(), 1u);
  EXPECT_EQ(list.rows[0].label, "3");
  EXPECT_THAT(list.note, HasSubstr("path is \"bild\", label is \"klasse\""));
  // A file that is missing is no header, and neither is a line before others that are missing.
  EXPECT_EQ(parse_csv_list("c.jpg,3\na.jpg,3\n", "l.csv", exists).rows.size(), 2u);
  EXPECT_EQ(parse_csv_list("c,3\nd,3\n", "l.csv", exists).rows.size(), 2u);
  EXPECT_EQ(parse_csv_list("b,class\na.jpg,3\n", "l.csv", exists).rows.size(), 2u);
  const auto error = [&](const std::string& text) {
    return message_of<DataError>([&] { parse_csv_list(text, "l.csv", exists); });
  };
  EXPECT_THAT(error("image,cat\na.jpg,dog\n"),
              AllOf(HasSubstr("l.csv:1: \"image,cat\" names columns, but is a file too"),
                    HasSubstr("write ./ before")));
  EXPECT_THAT(error("bild,x,class\na.jpg,1,2\n"), HasSubstr("none of them as the path"));
  EXPECT_THAT(error("image,filename\na.jpg,b.jpg\n"),
              HasSubstr("both \"image\" and \"filename\" can be the path"));
}

TEST(FileListParserTest, JsonLines) {
  const auto rows = parse_jsonl_list(
      "{\"path\": \"a.jpg\", \"label\": 3, \"other\": [1]}\n\n{\"label\": null, \"path\": "
      "\"\\u00e9.png\", \"mask\": \"m.png\"}",
      "l.jsonl");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].label, "3");
  EXPECT_EQ(rows[1].path, "\xc3\xa9.png");
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_FALSE(rows[1].label);
  const auto error = [](const std::string& text) {
    return message_of<DataError>([&] { parse_jsonl_list(text, "l.jsonl"); });
  };
  EXPECT_THAT(error("{\"path\": \"a\"}\n{\"path\": \n"), HasSubstr("l.jsonl:2: not a JSON object"));
  EXPECT_THAT(error("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("{\"label\": 1}"), HasSubstr("l.jsonl:1: no \"path\""));
  EXPECT_THAT(error("{\"path\": 3.5}"), HasSubstr("\"path\" is number; expected text"));
  EXPECT_THAT(error("{\"path\": \"a\", \"label\": 1.5}"), HasSubstr("expected text or an integer"));
}

class FileListTest : public ::testing::Test {
 protected:
  FileListTest() {
    dir_.write("img/a.jpg", golden("file.jpeg_420").bytes);
    dir_.write("img/b.png", golden("file.png_gray").bytes);
  }
  std::string list(const std::string& text, const std::string& name = "list.csv") const {
    return dir_.write(name, text);
  }
  std::string error_of(const FileListConfig& config) const {
    return message_of<DataError>([&] { build_file_list_dataset(config); });
  }
  TempDir dir_;
};

TEST_F(FileListTest, ReadsNumbersAndNames) {
  const auto dataset = build_dataset({FileListConfig{.path = list("img/a.jpg,2\nimg/b.png,0\n")}});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->num_classes(), 3);
  EXPECT_TRUE(dataset->class_names().empty());
  Sample sample;
  read_decoded(*dataset, 0, sample);
  EXPECT_EQ(sample.label, 2);
  EXPECT_EQ(sample.image().pixels, golden("decoded.jpeg_420").bytes);
  EXPECT_EQ(dataset->describe(1), dir_.path() + "/img/b.png");
  const auto named = build_file_list_dataset(
      {.path = list("{\"path\": \"a.jpg\", \"label\": \"dog\"}\n{\"path\": \"b.png\", \"label\": "
                    "\"cat\"}\n",
                    "list.jsonl"),
       .root = dir_.path() + "/img"});
  EXPECT_THAT(named->class_names(), ElementsAre("cat", "dog"));
  read_decoded(*named, 1, sample);
  EXPECT_EQ(sample.label, 0);
  EXPECT_EQ(sample.image().pixels, golden("decoded.png_gray").bytes);
  const auto given = build_file_list_dataset(
      {.path = list("img/a.jpg,dog\nimg/b.png,1\n"), .class_names = {"dog", "cat", "cow"}});
  EXPECT_EQ(given->num_classes(), 3);
  read_decoded(*given, 0, sample);
  EXPECT_EQ(sample.label, 0);
}

TEST_F(FileListTest, AHeaderIsNoSample) {
  for (const char* header : {"file,class\n", "bild,klasse\n", ""}) {
    const auto dataset = build_file_list_dataset(
        {.path = list(std::string(header) + "img/a.jpg,cat\nimg/b.png, dog\n")});
    EXPECT_EQ(dataset->size(), 2) << header;
    EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
  }
  // Blanks around numbers do not make names of them.
  const auto numbers = build_file_list_dataset({.path = list("img/a.jpg, 10\nimg/b.png, 9\n")});
  EXPECT_TRUE(numbers->class_names().empty());
  EXPECT_EQ(numbers->num_classes(), 11);
}

TEST_F(FileListTest, WithoutLabels) {
  const auto dataset = build_file_list_dataset({.path = list("path\nimg/a.jpg\n")});
  Sample sample;
  read_decoded(*dataset, 0, sample);
  EXPECT_EQ(sample.label, -1);
  EXPECT_EQ(dataset->num_classes(), 0);
}

TEST_F(FileListTest, BadListsAreNamedWithTheLine) {
  EXPECT_THAT(error_of({.path = dir_.path() + "/none.csv"}),
              HasSubstr("none.csv: cannot open the file"));
  EXPECT_THAT(error_of({.path = list("path,label\n")}), HasSubstr("list.csv: the list is empty"));
  EXPECT_THAT(error_of({.path = list("a,1\nb,\n")}), HasSubstr("list.csv:2: no label, but line 1"));
  EXPECT_THAT(error_of({.path = list("a,1\nb,5\n"), .num_classes = 5}),
              HasSubstr("list.csv:2: label 5; expected 0 to 4"));
  EXPECT_THAT(error_of({.path = list("a,-1\n")}), HasSubstr("list.csv:1: label -1"));
  EXPECT_THAT(error_of({.path = list("a,0\nb,1000000000\n")}),
              HasSubstr("list.csv:2: label 1000000000; expected 0 to 16777215"));
  EXPECT_THAT(error_of({.path = list("a,x\nb,cow\n"), .class_names = {"x"}}),
              HasSubstr("list.csv:2: label \"cow\" is none of class_names"));
  EXPECT_THAT(
      message_of<ConfigError>([&] { build_file_list_dataset({.path = list("path,mask\na,m\n")}); }),
      HasSubstr("give class_names or num_classes"));
}

TEST_F(FileListTest, MasksComeWithTheImage) {
  const Image decoded = golden("decoded.png_gray").image();
  Image mask = decoded;
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    mask.pixels[i] = i % 5 == 4 ? 255 : static_cast<uint8_t>(i % 3);
  }
  dir_.write("m.png", encode_png(mask));
  const auto path = list("path,mask\nimg/b.png,m.png\nimg/a.jpg,img/a.jpg\nimg/b.png,small.png\n");
  const auto dataset =
      build_file_list_dataset({.path = path, .unique_paths = false, .num_classes = 3});
  EXPECT_TRUE(dataset->has_masks());
  Sample sample;
  read_decoded(*dataset, 0, sample);
  EXPECT_EQ(sample.mask.size, (VolumeSize{1, decoded.height, decoded.width}));
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    ASSERT_EQ(sample.mask.classes[i], i % 5 == 4 ? -1 : static_cast<int32_t>(i % 3));
  }
  EXPECT_THAT(message_of([&] { read_decoded(*dataset, 1, sample); }),
              HasSubstr("a mask with 3 channels"));
  dir_.write("small.png", encode_png(Image{1, 1, 1, {0}}));
  EXPECT_THAT(message_of([&] { read_decoded(*dataset, 2, sample); }),
              AllOf(HasSubstr("a mask of 1 x 1 pixels"), HasSubstr("img/b.png")));
  const auto few = build_file_list_dataset({.path = path, .unique_paths = false, .num_classes = 2});
  EXPECT_THAT(message_of([&] { read_decoded(*few, 0, sample); }),
              HasSubstr("pixel (2, 0) has class 2; expected 0 to 1, or 255"));
}

}  // namespace
}  // namespace fovea::data
