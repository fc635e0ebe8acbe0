"""The suggested number of clusters, and the curves behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omcal.model.structure import Structure
from omcal.model.tabular import Tabular

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LISTED = 5
_CURVES = ("score", "modularity", "stability", "chance")


@dataclass(frozen=True)
class ClusterNumber(Tabular):
    """Curves over the number of clusters, and a suggestion; `print` it, or `plot` it.

    Attributes
    ----------
    suggestion : int
        The candidate with the largest `score`; 1 if no cluster structure was found and no
        candidates were given. Numbers above 30 and above the root of the number of samples are
        suggested only if single runs suggest them, too.
    confidence : float
        Estimated probability that the number is right within one: the odds are 2.5 × the lead of
        its score over those of other numbers / its instability, which is
        (1 − stability) / (1 − chance).
    ranking : tuple of int
        The candidates by `score`, the suggestion first.
    candidates : tuple of int
        The numbers that were tried.
    modularity : tuple of float
        Share of the ties between neighbours that lie inside clusters, less the share that is
        expected of random ties.
    stability : tuple of float
        Mean adjusted Rand index between two runs, which have other anchors.
    chance : tuple of float
        The same on data without clusters: one Gaussian with the covariance of all scaled views,
        and categories in a random order.
    score : tuple of float
        Modularity relative to its largest value, plus (stability − chance) / (1 − chance).
    n_samples, n_runs : int
        Number of samples that were used, and of runs per candidate.
    structure : omcal.model.structure.Structure or None
        How well the clusters of the best number are separated on a sample, compared with data
        without clusters; None with fewer than 50 samples.
    has_structure : bool
        Whether the best number separates neighbours better, or its runs agree more, than on data
        without clusters.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import n_clusters
    >>> data = make_multiview(200, n_clusters=4, noise=0.3, random_state=0)
    >>> found = n_clusters(data.views, range(2, 8))
    >>> found.suggestion, found.candidates[0], len(found.modularity)
    (4, 2, 6)
    """

    suggestion: int
    confidence: float
    ranking: tuple[int, ...]
    candidates: tuple[int, ...]
    modularity: tuple[float, ...]
    stability: tuple[float, ...]
    chance: tuple[float, ...]
    score: tuple[float, ...]
    n_samples: int
    n_runs: int
    structure: Structure | None = None
    has_structure: bool = True

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curves, as `omcal.plots.number_of_clusters` does.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            The axes with the drawing.
        """
        from omcal.plots.clusters import number_of_clusters

        return number_of_clusters(self, ax)

    def _items(self) -> list[dict[str, Any]]:
        points = zip(*(getattr(self, name) for name in ("candidates", *_CURVES)), strict=True)
        return [dict(zip(("n_clusters", *_CURVES), point, strict=True)) for point in points]

    def _table(self) -> list[Sequence[str]]:
        """Return the best candidates."""
        of_number = {item["n_clusters"]: item for item in self._items()}
        best = [of_number[c] for c in self.ranking if c in of_number][:_LISTED]
        return [
            ("clusters", "score", "modularity", "stability", "by chance"),
            *(
                (str(c), f"{score:.2f}", f"{modularity:.3f}", f"{stability:.2f}", f"{chance:.2f}")
                for c, score, modularity, stability, chance in (one.values() for one in best)
            ),
        ]

    def remarks(self) -> list[str]:
        return [self.sentence()]

    def __str__(self) -> str:
        table = super().__str__().removesuffix(f"\n\n{self.sentence()}")
        return f"{self.sentence()}\n\n{table}"

    def sentence(self) -> str:
        """Return the suggestion and how far to trust it, as text.

        Returns
        -------
        str
            One or two sentences.
        """
        if self.structure is not None and not self.has_structure:
            numbers = "1 cluster" if self.suggestion == 1 else f"{self.suggestion} clusters"
            return (
                f"{numbers}: no cluster structure found. The best number separates neighbours with "
                f"a score of {self.structure.separation:.2f}, and data without clusters reach "
                f"{self.structure.null:.2f}; nor do runs agree more on it."
            )
        if self.confidence >= 0.9:
            trust = "the data point to this number"
        elif self.confidence >= 0.5:
            trust = "other numbers fit nearly as well; look at the next best, or at a tree"
        else:
            trust = "little more than a guess; look at a tree of the clusters"
        text = f"{self.suggestion} clusters, confidence {self.confidence:.2f}: {trust}."
        if self.suggestion == max(self.candidates):
            text += " It is the largest number tried; try larger ones."
        return text
