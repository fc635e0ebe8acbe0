"""Methods that fit, the same for OMCAL, OCAL and Consensus: fit, partial_fit, estimate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from numbers import Integral
from operator import is_
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils import Tags

from omcal.machine.declaring import declared
from omcal.machine.scikit import scikit_constraints
from omcal.model.base import FittedModel
from omcal.model.cost import Estimate, view_sizes
from omcal.model.doubts import warn
from omcal.model.progress import plain_interrupts, tell
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.reading import refuse_second_view


class Clusterer(FittedModel):
    """The public methods that fit; each class does the work in `_fit` and `_partial_fit`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _fit: ClassVar[Callable[..., bool]]
    _partial_fit: ClassVar[Callable[..., None]]
    _checked: Sequence[Any] = ()  # parameters of the last batch

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._parameter_constraints = scikit_constraints(declared(cls))

    @abstractmethod
    def _new_run(self) -> Any:
        """Return the OMCAL or OCAL that a fit works with."""

    def _check_parameters(self, run: Any) -> None:
        """Refuse parameters that no fit can work with."""
        self._validate_params()

    def fit(
        self,
        X: ViewsLike,
        y: ArrayLike | None = None,
        present: PresentLike | None = None,
        like: Any = None,
    ) -> Self:
        """Cluster the samples of X.

        Parameters
        ----------
        X : list or mapping of 2-D arrays, or one 2-D array
            The views, dense or sparse; row i is the same sample in each. One array, data frame
            or sparse matrix is one view, or several where `views` splits its columns. Views may
            be larger than the memory: memory-mapped files, datasets of h5py, arrays of zarr,
            anything else that has a shape, a dtype and slices of rows; arrays, data frames or
            lists of delayed blocks of Dask. Data frames whose indices are the same set of names
            are brought into the order of the first. A sample may be absent from some views, but
            not from all: its row there is None, masked, or NaN in all of its features.
        y : None
            Ignored; clustering knows no classes.
        present : mapping or list of boolean arrays, or one of shape (n, n_views), optional
            Which samples are in which view, for views that cannot hold NaN, such as sparse ones;
            None in place of an array: all.
        like : fitted model, array of n labels, or labels by id, optional
            An earlier clustering whose numbers are kept. Clusters are matched by the samples they
            share: by the labels that are given (−1: none), by id for data frames (a mapping or a
            Series), or by the predictions of a model. Clusters without a match take free numbers.
            By default clusters are numbered by size, largest first.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. While the fit iterates, it ends with the iteration in progress, and the
            model is fitted as far as it came; earlier, or pressed twice, the model is as before.
        """
        run = self._new_run()
        with run._telling():
            self._check_parameters(run)
            refuse_second_view(y)
        client = nullcontext() if run.client is None else run.client.as_current()
        with client, plain_interrupts():
            interrupted = self._fit(run, X, y, present, like)
            warn(self)
        if interrupted:
            raise KeyboardInterrupt
        return self

    def partial_fit(
        self, X: ViewsLike, y: ArrayLike | None = None, present: PresentLike | None = None
    ) -> Self:
        """Add a batch of samples to the fit; clusters keep their numbers.

        A model that begins with it keeps a random sample of all batches: 128 rows per anchor, or
        as many as 16 MiB hold, but at least 2000. It is fitted to the sample again while the
        sample fills, and later where the last tenth of the stream lies elsewhere than the samples
        of the last fit. In between, and for models of `fit` and of files, scalings, anchors and
        view weights stay, and the sums of the solver are carried on. Memory does not grow with
        the stream. The page "Living clusters" has the details.

        Parameters
        ----------
        X : as in `fit`
            The batch; the first has at least as many samples as `fit` needs. Views in files are
            read in blocks, each of which is a batch. Tensors are copied to the memory of the host.
        y, present
            As in `fit`.

        Returns
        -------
        self
            `labels_` has the labels of the batch, in its order.

        Examples
        --------
        >>> from omcal import OMCAL
        >>> from omcal.datasets import make_multiview
        >>> data = make_multiview(900, n_clusters=3, noise=0.5, random_state=0)
        >>> model = OMCAL(3, random_state=0)
        >>> for week in range(3):
        ...     rows = slice(300 * week, 300 * week + 300)
        ...     _ = model.partial_fit({name: view[rows] for name, view in data.views.items()})
        >>> bool((model.predict(data.views)[600:] == model.labels_).mean() > 0.95)
        True
        """
        run = getattr(self, "estimator_", None) or self._new_run()
        given = list(self.get_params().values())
        if len(given) != len(self._checked) or not all(map(is_, given, self._checked)):
            self._check_parameters(run)  # takes a hundredth of a batch
            self._checked = given
        refuse_second_view(y)
        run._require_host()
        with plain_interrupts():
            self._partial_fit(X, present)
        return self

    def fit_transform(
        self, X: ViewsLike, y: ArrayLike | None = None, present: PresentLike | None = None
    ) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X, y, present
            As in `fit`.

        Returns
        -------
        F : array of shape (n, n_clusters)
            As in `transform`.
        """
        return self.fit(X, y, present).transform(X, present)

    def estimate(
        self,
        n: int,
        dims: int | Sequence[int],
        *,
        dtype: DTypeLike = np.float64,
        density: float | Sequence[float | None] | None = None,
    ) -> Estimate:
        """Estimate the memory and time of `fit` on n samples, and where the rows would be held.

        Parameters
        ----------
        n : int
            Number of samples.
        dims : list of int
            Number of features of each view.
        dtype : dtype, default=float64
            Of the views.
        density : float or list of float or None, optional
            Share of stored entries of sparse views, for all or for each; None is dense.

        Returns
        -------
        omcal.model.cost.Estimate
            `print` it, or read its `bytes` and `seconds`.

        Examples
        --------
        >>> from omcal import OMCAL
        >>> expected = OMCAL(n_clusters=10).estimate(1_000_000, [50, 30], dtype="float32")
        >>> 1e8 < expected.bytes < 1e9
        True
        """
        run = self._new_run()
        self._check_parameters(run)
        if not isinstance(n, Integral) or n < 2:
            raise ValueError(f"n={n!r} must be the number of samples, at least 2.")
        sizes = view_sizes(dims, dtype, density)
        expected: Estimate = run._estimate(int(n), sizes, getattr(self, "n_runs", 1))
        return expected

    def _choose_number(self, inner: Any, X: ViewsLike, present: PresentLike | None) -> None:
        """Set `n_clusters_` as the estimator `inner` has it or, with "auto", as suggested."""
        self.selection_, inner._n_grown, inner._strangers = None, 0, None
        if inner.n_clusters == "auto":
            if inner.group is not None:
                raise ValueError(
                    'n_clusters="auto" does not go with group, whose ranks hold parts of the '
                    "samples; give the number that omcal.select.n_clusters suggests for one part."
                )
            from omcal.select import n_clusters

            names = [name for name in ("views", "weighting") if hasattr(inner, name)]
            how: dict[str, Any] = {name: getattr(inner, name) for name in ("scale", *names)}
            self.selection_ = n_clusters(X, present=present, random_state=self.random_state, **how)
            tell("%s", self.selection_.sentence(), shown=inner.verbose > 0)
        chosen = self.selection_
        self.n_clusters_ = int(inner.n_clusters) if chosen is None else chosen.suggestion
        inner.n_clusters_ = self.n_clusters_

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
