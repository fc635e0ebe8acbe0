"""Provide the methods that OMCAL is compared with, and a registry of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omcal.baselines.amgl import AMGL
from omcal.baselines.cgfkm import CGFKM
from omcal.baselines.coclustering import BKM, FNMTF
from omcal.baselines.components import MCGC, MLAN
from omcal.baselines.ecpcs import ECPCS
from omcal.baselines.kmm import KMM
from omcal.baselines.networks import NEMO, SNF
from omcal.baselines.nmf import NMFClustering
from omcal.baselines.plain import SC, BestSingleView, ConcatKMeans, ConcatSpectral
from omcal.baselines.slmvgc import SLMVGC
from omcal.baselines.smc import SMC, SMCAGC, SMCOCL
from omcal.baselines.subspaces import FSMSC, MVSCHFD
from omcal.baselines.uomvsc import UOMvSC


@dataclass(frozen=True)
class Method:
    """One method of a registry: its names, the class or function of its estimator, and its data.

    Attributes
    ----------
    title : str
        Name in tables, as the paper writes it.
    cls : callable
        The class, or a function, that makes its estimator from parameters.
    paper : str
        Authors, venue and year.
    complexity : str
        Order of operations, for n samples, d features, c clusters, m anchors, V views, t
        iterations.
    quadratic : bool
        Whether time or memory grows with n².
    multi_view : bool
        Whether it takes several views.
    name : str
        Name in commands and in `compare`; in `METHODS` it is the key.
    takes_absent : bool
        Whether samples may be absent from some views.

    Examples
    --------
    >>> from omcal.baselines import METHODS
    >>> METHODS["fsmsc"].title, METHODS["fsmsc"].complexity
    ('FSMSC', 't n c d + t n c²')
    >>> [name for name, method in METHODS.items() if method.multi_view and not method.quadratic]
    ['fsmsc', 'mvschfd', 'concat-kmeans', 'best-view']
    >>> type(METHODS["smc-ocl"].make(3)).__name__
    'SMCOCL'
    """

    title: str
    cls: Any
    paper: str = ""
    complexity: str = ""
    quadratic: bool = False
    multi_view: bool = True
    name: str = ""
    takes_absent: bool = False

    def make(self, n_clusters: int | None = None, **parameters: Any) -> Any:
        """Return an estimator that is not fitted.

        Parameters
        ----------
        n_clusters : int, optional
            Number of clusters; by default that of the class.
        **parameters
            Other parameters of the class.

        Returns
        -------
        estimator
            Of the class of the method.
        """
        if n_clusters is not None:
            parameters["n_clusters"] = n_clusters
        return self.cls(**parameters)


#: The baselines by their names in `omcal compare` and `omcal cluster --method`.
METHODS: dict[str, Method] = {
    "amgl": Method("AMGL", AMGL, "Nie, Li, Li, IJCAI 2016", "n²d + t n²c", True, True),
    "mlan": Method("MLAN", MLAN, "Nie, Cai, Li, AAAI 2017", "n²d + t n²c", True, True),
    "mcgc": Method("MCGC", MCGC, "Zhan, Nie, Wang, Yang, TIP 2019", "n²d + t n²c", True, True),
    "smc": Method("SMC", SMC, "Liu et al., NCA 2022", "n²d + nVm² + n(Vm)²", True, True),
    "fsmsc": Method("FSMSC", FSMSC, "Chen et al., TIP 2023", "t n c d + t n c²", False, True),
    "slmvgc": Method("SLMVGC", SLMVGC, "Tan et al., CVPR 2023", "n²d + t n²V", True, True),
    "uomvsc": Method("UOMvSC", UOMvSC, "Tang et al., TKDE 2022", "V n²d + V n²c", True, True),
    "mvschfd": Method("MVSC-HFD", MVSCHFD, "Ou et al., arXiv 2310.07166", "t n c d", False, True),
    "smc-agc": Method(
        "SMC-AGC", SMCAGC, "Xue et al., arXiv 2509.14724", "n²d + n(Vm)²", True, True
    ),
    "smc-ocl": Method(
        "SMC-OCL", SMCOCL, "Xue et al., arXiv 2509.14724", "n²d + n(Vm)² + t nVmc", True, True
    ),
    "snf": Method("SNF", SNF, "Wang et al., Nature Methods 2014", "n²d + t n²kV", True, True),
    "nemo": Method("NEMO", NEMO, "Rappoport, Shamir, Bioinformatics 2019", "n²d", True, True),
    "concat-kmeans": Method("k-means, all views", ConcatKMeans, "", "t n c d", False, True),
    "best-view": Method("k-means, best view", BestSingleView, "", "t n c d", False, True),
    "concat-spectral": Method(
        "spectral, all views", ConcatSpectral, "Ng, Jordan, Weiss, NIPS 2001", "n²d", True, True
    ),
    "nmf": Method("NMF", NMFClustering, "Lee, Seung, Nature 1999", "t nnz c", False, False),
    "sc": Method("SC", SC, "Ng, Jordan, Weiss, NIPS 2001", "n²d + n²c", True, False),
    "fnmtf": Method(
        "FNMTF", FNMTF, "Wang, Nie, Huang, Makedon, IJCAI 2011", "t (nnz + (n+d)c²)", False, False
    ),
    "bkm": Method("BKM", BKM, "Han, Song, Nie, Li, AAAI 2017", "t (nnz + (n+d)c)", False, False),
    "ecpcs": Method("ECPCS", ECPCS, "Huang et al., TSMC 2018", "n d √n t", False, False),
    "kmm": Method("KMM", KMM, "Nie, Wang, Li, KDD 2019", "t n m c", False, False),
    "cgfkm": Method("CGFKM", CGFKM, "Du et al., 2024", "n²d + t n c d", True, False),
}

__all__ = [
    "METHODS",
    "Method",
    "AMGL",
    "MLAN",
    "MCGC",
    "SMC",
    "FSMSC",
    "SLMVGC",
    "UOMvSC",
    "MVSCHFD",
    "SMCAGC",
    "SMCOCL",
    "SNF",
    "NEMO",
    "ConcatKMeans",
    "BestSingleView",
    "ConcatSpectral",
    "NMFClustering",
    "SC",
    "FNMTF",
    "BKM",
    "ECPCS",
    "KMM",
    "CGFKM",
]
