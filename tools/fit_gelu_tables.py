#!/usr/bin/env python3
"""Makes fovea/kernels/cpu/gelu_tables.h, by which GELU of bfloat16 is taken; needs numpy and scipy.

With a = |x| GELU is max(x, 0) - G(a), G(a) = a Phi(-a), and its derivative D(a) = Phi(-a) - a phi(a) for x < 0 and 1 - D(a)
for x >= 0; Phi is the normal distribution function and phi its density. Around each multiple k of STEP, half a step to both
sides, a polynomial in a is taken: of G the one of degree 3 whose largest relative error is least, without a constant term
around 0, and of D the one of degree 4 whose largest error is least. From the last multiple on both are 0. A linear programme
finds each.

    tools/fit_gelu_tables.py > fovea/kernels/cpu/gelu_tables.h
"""

import sys

import numpy as np
from scipy.special import ndtr

import minimax

STEP = 0.1875
COUNT = 32


def gelu_below(a):
    return a * ndtr(-a)


def derivative_below(a):
    return ndtr(-a) - a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)


def fit(function, is_relative, powers, low, high):
    """Coefficients of a^power for each of `powers`, and the largest error."""
    # Points lie the closer, the nearer to an end, where a polynomial errs most. Powers are of the distance from the middle, which
    # the programme tells apart.
    middle, half = (low + high) / 2, (high - low) / 2
    points = middle + half * np.cos(np.linspace(0, np.pi, 201))
    wanted = function(points)
    kept = np.abs(wanted) > 0 if is_relative else np.full(len(points), True)
    points, wanted = points[kept], wanted[kept]
    weights = np.abs(wanted) if is_relative else np.full(len(points), np.abs(wanted).max())
    base = 0.0 if powers[0] else middle  # without a constant term powers are those of a itself
    terms = np.stack([((points - base) / half) ** power for power in powers], 1) / weights[:, None]
    coefficients, error = minimax.least_largest_error(terms, wanted / weights)
    around = np.zeros(powers[-1] + 1)
    around[list(powers)] = coefficients / half ** np.array(powers)
    polynomial = np.polynomial.Polynomial(around)(np.polynomial.Polynomial([-base, 1.0]))
    return polynomial.coef, error * (1 if is_relative else weights[0])


def table(function, is_relative, degree):
    """[degree + 1, COUNT], and the largest error of a segment."""
    coefficients, worst = np.zeros((degree + 1, COUNT)), 0.0
    for k in range(COUNT - 1):
        powers = range(1 if is_relative and k == 0 else 0, degree + 1)
        coefficients[:, k], error = fit(function, is_relative, powers, max((k - 0.5) * STEP, 0), (k + 0.5) * STEP)
        worst = max(worst, error)
    return coefficients, worst


def lines_of(name, coefficients):
    """An array of C++, a row for each power, the highest first."""
    yield f"alignas(64) inline constexpr float {name}[{len(coefficients)}][{COUNT}] = {{"
    for row in coefficients[::-1]:
        numbers = [f"{np.float32(value):.9g}" for value in row]
        numbers = [(number if "." in number or "e" in number else number + ".0") + "f" for number in numbers]
        for i in range(0, COUNT, 4):
            yield "    " + ("{" if i == 0 else " ") + ", ".join(numbers[i:i + 4]) + ("}," if i + 4 == COUNT else ",")
    yield "};"


def main():
    below, below_error = table(gelu_below, True, 3)
    slope, slope_error = table(derivative_below, False, 4)
    print(f"largest errors: {below_error:.1e} of the value of G, {slope_error:.1e} of D", file=sys.stderr)
    print("// Made by tools/fit_gelu_tables.py, which says of what: polynomials for pieces of GELU and of its")
    print("// derivative, by power, the highest first, and by piece.")
    print("#pragma once\n\nnamespace fovea::kernels::cpu {\n")
    print(f"inline constexpr float kGeluStep = {STEP}f, kGeluEnd = {STEP * (COUNT - 1)}f;")
    print("// clang-format off")
    for line in (*lines_of("kGeluBelow", below), *lines_of("kGeluSlopeBelow", slope)):
        print(line)
    print("// clang-format on\n\n}  // namespace fovea::kernels::cpu")


if __name__ == "__main__":
    main()
