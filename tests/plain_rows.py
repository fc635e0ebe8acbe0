"""The pass over the rows as it is written down, and graphs by chance for it."""

import numpy as np

from omcal.method.graph import AnchorGraphs


def random_graphs(rng, n, V, m, k, dtype):
    """Different anchors in a row; weights that sum to 1, some of them 0."""
    steps = rng.integers(1, m // k + 1, size=(n, V, k))
    steps[:, :, 0] = rng.integers(m, size=(n, V))
    weights = rng.dirichlet(np.ones(k), size=(n, V))
    if k > 1:  # as where the last two distances are equal
        weights[: n // 4, :, 0] += weights[: n // 4, :, -1]
        weights[: n // 4, :, -1] = 0
    indices = (steps.cumsum(axis=2) % m).astype(np.min_scalar_type(m - 1))
    return AnchorGraphs(indices, weights.astype(dtype), m)


class PlainRows:
    """The pass as it is written down, neighbour by neighbour, in float64."""

    def __init__(self, graphs, n_clusters):
        V, m = graphs.n_views, graphs.n_anchors
        columns = graphs.indices.astype(np.intp) + (np.arange(V) * m)[:, None]
        self.slots = list(
            zip(
                columns.reshape(graphs.n, -1).T,
                graphs.weights.reshape(graphs.n, -1).T.astype(np.float64),
                strict=True,
            )
        )
        self.shape = V, m
        self.F = np.zeros((graphs.n, n_clusters))

    def times(self, alpha, P):
        """A(alpha) P."""
        stack_by_view = np.concatenate([a * P for a in alpha])
        return sum(weights[:, None] * stack_by_view[columns] for columns, weights in self.slots)

    def gram(self):
        V, m = self.shape
        StS = np.zeros((V * m, V * m))
        for i, u in self.slots:
            for j, w in self.slots:
                np.add.at(StS, (i, j), u * w)
        return StS.reshape(V, m, V, m).swapaxes(1, 2)

    def sweep(self, alpha, P, R):
        old = self.F
        self.F = new = np.maximum(self.times(alpha, P) + old @ R, 0)
        StF = np.zeros((np.prod(self.shape), len(R)))
        for columns, weights in self.slots:
            np.add.at(StF, columns, weights[:, None] * new)
        return StF.reshape(*self.shape, -1), new.T @ new, old.T @ new

    def assign(self, alpha, P, R):
        """U = A(alpha) P + F R, whose largest entries are the labels."""
        return self.times(alpha, P) + self.F @ R
