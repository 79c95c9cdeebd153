#include "fovea/files/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NpyTest : public ::testing::Test {
 protected:
  NpyArray read(const std::string& file) {
    std::ofstream(path_, std::ios::binary) << file;
    return read_npy(path_);
  }
  std::string fault(const std::string& file) {
    try {
      read(file);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_));
      return error.what();
    }
    return "no fault";
  }

  support::TempDir folder_;
  std::string path_ = folder_.file("a.npy");
};

// A file as NumPy writes it, but with any header.
std::string npy(const std::string& header, const std::string& data = "", char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  if (version > 1) file += std::string(2, '\0');
  return file + header + data;
}

std::string header_of(const std::string& dtype, const std::string& shape) {
  return "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }  \n";
}

TEST_F(NpyTest, WritesWhatItReads) {
  const float values[6] = {1, -2, 3.5f, 0, 1e30f, -0.0f};
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2, 3}, std::vector<int64_t>{6}, std::vector<int64_t>{1, 6, 1}}) {
    write_npy(path_, "<f4", shape, std::as_bytes(std::span(values)));
    const NpyArray array = read_npy(path_);
    EXPECT_EQ(array.dtype, "<f4");
    EXPECT_EQ(array.shape, shape);
    ASSERT_EQ(array.bytes.size(), sizeof(values));
    EXPECT_EQ(std::memcmp(array.bytes.data(), values, sizeof(values)), 0);
  }
  const uint8_t one = 7;
  write_npy(path_, "|u1", {}, std::as_bytes(std::span(&one, 1)));
  EXPECT_TRUE(read_npy(path_).shape.empty());
  write_npy(path_, "<i8", {0, 4}, {});
  EXPECT_THAT(read_npy(path_).shape, ElementsAre(0, 4));
}

TEST_F(NpyTest, DataStartsAligned) {
  for (const int64_t size : {1, 10, 1000}) {
    const std::vector<std::byte> bytes(static_cast<size_t>(size));
    write_npy(path_, "|i1", {size}, bytes);
    const auto file = read_file(path_, 1 << 20);
    EXPECT_EQ(parse_npy_header(file, path_).data_offset % 64, 0u);
  }
}

TEST_F(NpyTest, ReadsEveryVersionAndDtype) {
  for (const char version : {1, 2, 3}) {
    const auto array = read(npy(header_of("<i2", "(2,)"), "abcd", version));
    EXPECT_EQ(array.dtype, "<i2");
    EXPECT_THAT(array.shape, ElementsAre(2));
  }
  for (const char* dtype :
       {"<f2", "<f4", "<f8", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "|b1"}) {
    const auto size = static_cast<size_t>(dtype[2] - '0');
    EXPECT_EQ(read(npy(header_of(dtype, "(3, 1)"), std::string(3 * size, 'x'))).dtype, dtype);
  }
}

TEST_F(NpyTest, RefusesByName) {
  EXPECT_THAT(fault("not a file of numbers"), HasSubstr("wrong magic"));
  EXPECT_THAT(fault(""), HasSubstr("wrong magic"));
  EXPECT_THAT(fault(npy(header_of("|O", "(2,)"), "xxxx")), HasSubstr("pickled objects"));
  EXPECT_THAT(fault(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "abcd")),
              HasSubstr("Fortran order"));
  EXPECT_THAT(fault(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }")),
              HasSubstr("records"));
  for (const char* dtype : {">f4", "<c8", "<U4", "<f1", "<M8", "", "<f16", "|f4"}) {
    EXPECT_THAT(fault(npy(header_of(dtype, "(1,)"), "abcd")), HasSubstr("expected little-endian"))
        << dtype;
  }
  EXPECT_THAT(fault(npy(header_of("<f4", "(1,)"), "abcd", 9)), HasSubstr("expected 1 to 3"));
}

TEST_F(NpyTest, RefusesHeadersThatLie) {
  EXPECT_THAT(fault(npy(header_of("<f4", "(2,)"), "abcd")),
              HasSubstr("4 bytes of data, but its header describes 8"));
  EXPECT_THAT(fault(npy(header_of("|u1", "(2,)"), "abcd")), HasSubstr("truncated or damaged"));
  EXPECT_THAT(fault(npy(header_of("<f8", "(4611686018427387904, 4)"), "abcd")),
              HasSubstr("overflows"));
  EXPECT_THAT(fault(npy(header_of("<f4", "(-1,)"), "abcd")), HasSubstr("list of sizes"));
  EXPECT_THAT(fault(npy(header_of("<f4", "(99999999999999999999,)"))), HasSubstr("list of sizes"));
  EXPECT_THAT(fault(std::string("\x93NUMPY\x01\x00\xff\xff{", 11)), HasSubstr("truncated"));
  EXPECT_THAT(fault(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)),
              HasSubstr("truncated"));
  for (const char* header :
       {"", "{", "{}", "{'descr'", "{'descr': '<f4', 'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "{'other': 1}", "[1, 2]"}) {
    EXPECT_THAT(fault(npy(header, "abcd")), HasSubstr("its")) << header;
  }
  std::string many = "(";
  for (int i = 0; i < 1000; ++i) many += "1, ";
  EXPECT_THAT(fault(npy(header_of("|u1", many + ")"), "a")), HasSubstr("list of sizes"));
}

TEST_F(NpyTest, AFileThatCannotBeWrittenIsNamed) {
  EXPECT_THROW(write_npy("/nowhere/x.npy", "|u1", {0}, {}), Error);
}

// Sparse files of which the header alone is read: neither memory nor time goes with their size.
TEST_F(NpyTest, WhatCannotBeIsRefusedBeforeItIsRead) {
  constexpr uint64_t kBytes = uint64_t{1} << 40;
  const auto refusal = [&](uint64_t size) {
    const auto start = npy(header_of("|u1", fmt::format("({},)", size)));
    std::ofstream(path_, std::ios::binary) << start;
    std::filesystem::resize_file(path_, start.size() + kBytes);
    try {
      read_npy(path_);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_THAT(refusal(7), HasSubstr("its header describes 7"));
  EXPECT_THAT(refusal(kBytes), HasSubstr("one batch of a model"));
}

}  // namespace
}  // namespace fovea
