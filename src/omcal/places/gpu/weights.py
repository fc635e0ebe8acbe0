"""The tables by which a device follows a rule of `method.weights.WEIGHTINGS`."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.method.solver import Problem
from omcal.method.weights import copies

FIXED, ADAPTIVE, BY_AGREEMENT = range(3)  # as `small.cu` numbers the rules
_RULES = {
    "fixed": FIXED,
    "adaptive": ADAPTIVE,
    "agreement": BY_AGREEMENT,
    "distinct": BY_AGREEMENT,
}
_MOST_VIEWS = 8  # 255 subsets of 8 views are all tested


def serves(problem: Problem) -> bool:
    """Whether a device supports the rule; otherwise the host does the step."""
    if problem.weighting not in _RULES:
        return False
    return problem.weighting != "adaptive" or len(problem.active_views) <= _MOST_VIEWS


def table(problem: Problem, H: Floats) -> tuple[int, Floats, Floats]:
    """Return the number of the rule, the faces of the simplex, and a factor per view.

    The factor is 1 over the number of copies of the view, 0 for views without a weight.
    """
    some, V = problem.active_views, len(H)
    faces, given = np.zeros((1, V, V + 1)), np.zeros(V)
    given[some] = 1.0
    within = H[np.ix_(some, some)]
    if problem.weighting == "adaptive":
        # Each run has the same number of faces; unused faces are never feasible.
        found = simplex_faces(within)
        faces = np.zeros((2**V - 1, V, V + 1))
        faces[len(found) :, :, V] = -1.0
        faces[: len(found), some[:, None], [*some, V]] = found
    elif problem.weighting == "distinct":
        given[some] /= copies(within)
    return _RULES[problem.weighting], faces, given


def simplex_faces(M: Floats) -> Floats:
    """Return L and l, (faces, V, V + 1), of each face: a'Ma - m'a may be smallest at L m + l.

    The minimum lies inside a face, where it is the minimum of the plane through its vertices. Faces
    with dependent vertices are never needed. Smaller faces come first.
    """
    V, parts = len(M), []
    for size in range(1, V + 1):
        of_size = np.array(list(combinations(range(V), size)))
        parts.append(_planes(M, of_size))
    return np.concatenate(parts)


def _planes(M: Floats, faces: Array) -> Floats:
    """Return [L l] of the plane through the vertices of each face, where it is unique."""
    V, (n, size) = len(M), faces.shape
    bordered = np.zeros((n, size + 1, size + 1))
    bordered[:, :size, :size] = M[faces[:, :, None], faces[:, None, :]]
    bordered[:, size, :size] = bordered[:, :size, size] = np.abs(M).max()
    unique = np.linalg.cond(bordered) <= 1e12
    faces, inverse = faces[unique], np.linalg.inv(bordered[unique])[:, :size]
    found = np.zeros((len(faces), V, V + 1))
    number, rows = np.arange(len(faces))[:, None, None], faces[:, :, None]
    found[number, rows, faces[:, None, :]] = 0.5 * inverse[:, :, :size]
    found[number[:, :, 0], faces, V] = inverse[:, :, size] * np.abs(M).max()
    return found
