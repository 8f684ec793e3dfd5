"""Sample multimodal posteriors in PyMC, and know the weight of each mode."""

from pymc_spectral.partition import KMeansPartition, SpectralPartition
from pymc_spectral.reweight import reweight
from pymc_spectral.step import SpectralPartitionStep
from pymc_spectral.summary import cell_summary, summary

__version__ = "0.1.0"
__all__ = ["KMeansPartition", "SpectralPartition", "SpectralPartitionStep", "cell_summary", "reweight", "summary"]
