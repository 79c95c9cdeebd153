#!/usr/bin/env python3
"""Makes the numbers of short_gelu in fovea/kernels/cuda/gelu.cu; needs numpy and scipy.

Phi(-x) = exp(-x^2 / 2) erfcx(z) / 2 with z = x / sqrt(2) >= 0, and erfcx(z) is taken for a polynomial in t = 1 / (1 + c z)
without a constant term. Of the given degree, the one whose largest relative error over 0 <= z <= 9.5 is the least, which a
linear programme finds; c is searched. Beyond, Phi is 0 in bfloat16.

    tools/fit_gelu.py [--degree 5]
"""

import argparse

import numpy as np
from scipy.special import erfcx

import minimax


def fit(degree, c, points):
    """The largest relative error, and the coefficients of t, t^2, ..."""
    z = np.concatenate([np.linspace(0, 3, points // 2), np.linspace(3, 9.5, points // 2)])
    t = 1 / (1 + c * z)
    terms = np.stack([t**k for k in range(1, degree + 1)], 1) / erfcx(z)[:, None]
    coefficients, error = minimax.least_largest_error(terms, np.ones(len(z)))
    return error, coefficients


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree", type=int, default=5)
    degree = parser.parse_args().degree
    c = min(np.linspace(0.2, 0.9, 36), key=lambda each: fit(degree, each, 800)[0])
    error, coefficients = fit(degree, c, 4000)
    print(f"c = {c:.2f}, largest relative error {error:.1e}")
    for power, value in enumerate(coefficients, 1):
        print(f"t^{power}: {value:.11f}")


if __name__ == "__main__":
    main()
