"""Provide the methods that OMCAL is compared with, and a registry of them."""

from omcal.baselines.amgl import AMGL
from omcal.baselines.bkm import BKM
from omcal.baselines.cgfkm import CGFKM
from omcal.baselines.ecpcs import ECPCS
from omcal.baselines.fnmtf import FNMTF
from omcal.baselines.fsmsc import FSMSC
from omcal.baselines.kmm import KMM
from omcal.baselines.mcgc import MCGC
from omcal.baselines.mlan import MLAN
from omcal.baselines.mvschfd import MVSCHFD
from omcal.baselines.nemo import NEMO
from omcal.baselines.nmf import NMFClustering
from omcal.baselines.plain import BestSingleView, ConcatKMeans, ConcatSpectral
from omcal.baselines.registry import METHODS, Method
from omcal.baselines.sc import SC
from omcal.baselines.slmvgc import SLMVGC
from omcal.baselines.smc import SMC
from omcal.baselines.smc_agc import SMCAGC
from omcal.baselines.smc_ocl import SMCOCL
from omcal.baselines.snf import SNF
from omcal.baselines.uomvsc import UOMvSC

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
