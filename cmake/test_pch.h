// Precompiled for the tests of what uses libtorch, as pch.h is for the libraries.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/pch.h"
