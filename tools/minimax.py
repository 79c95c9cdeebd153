"""The linear programme by which fit_gelu.py and fit_gelu_tables.py find polynomials; needs numpy and scipy."""

import numpy as np
from scipy.optimize import linprog


def least_largest_error(terms, wanted):
    """The c for which the largest of |terms c - wanted| is least, and that error. terms: [points, coefficients]; wanted: [points]."""
    count, ones = terms.shape[1], np.ones((len(terms), 1))
    found = linprog(np.append(np.zeros(count), 1), A_ub=np.block([[terms, -ones], [-terms, -ones]]),
                    b_ub=np.concatenate([wanted, -wanted]), bounds=[(None, None)] * count + [(0, None)], method="highs")
    return found.x[:-1], found.x[-1]
