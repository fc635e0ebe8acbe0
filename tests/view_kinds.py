"""Views of each kind of numbers, of samples in four clusters."""

import numpy as np
from scipy import sparse

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(4), 60)


def counts(n_words=300, seed=0):
    """Documents of four topics, of very different lengths."""
    rng = np.random.default_rng(seed)
    topics = rng.gamma(0.1, size=(4, n_words)) + 1e-3
    lengths = rng.lognormal(3.5, 1, size=len(Y))
    return rng.poisson(lengths[:, None] * (topics / topics.sum(axis=1, keepdims=True))[Y])


def embeddings(seed=0, width=20):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, width))[Y] + 0.6 * rng.normal(size=(len(Y), width))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def amounts(seed=0, width=12):
    """Abundances over orders of magnitude, each feature in a unit of its own."""
    rng = np.random.default_rng(seed)
    X = np.exp(1.5 * rng.normal(size=(4, width))[Y] + rng.normal(size=(len(Y), width)))
    return X * 10.0 ** rng.integers(-3, 4, size=width)


KINDS = {
    "tfidf": counts(),
    "unit": sparse.random_array(
        (240, 300), density=0.05, random_state=RNG, data_sampler=RNG.normal
    ),
    "view": embeddings(),
    "log": amounts(),
    "standard": RNG.normal(size=(240, 8)) * [1, 10, 100, 1, 1, 1, 1, 1],
}
