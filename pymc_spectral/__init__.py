"""Sample multimodal posteriors in PyMC, and know the weight of each mode.

The method of Basse, Pillai & Smith, in the order of the modules:

1. ``density``, ``tempering``, ``explore``: points that cover the modes, by parallel tempering.
2. ``partition``: spectral clustering of the points cuts the space into cells, one per mode.
3. ``restrict``, ``kernels``: the model's log density confined to a cell, and what moves in it.
4. ``step``: one PyMC chain per cell; each draw carries the four terms of its bridge.
5. ``bridge``: the mass of every cell, with its error; their sum is the evidence.
6. ``reweight``, ``pooled``, ``summary``: equal-weight draws of the whole posterior, and tables with
   honest errors, to which the bridge's own points contribute.
7. ``record``, ``diagnostics``, ``plots``: what to know before the answer is believed, and pictures.
"""

from pymc_spectral._version import __version__ as __version__
from pymc_spectral.diagnostics.efficiency import (
    efficiency_ratio,
    landmark_heuristic,
    recommended_landmarks,
)
from pymc_spectral.diagnostics.report import diagnose
from pymc_spectral.partition.estimators import KMeansPartition, SpectralPartition
from pymc_spectral.plots.pictures import (
    plot_cells,
    plot_overview,
    plot_partition,
    plot_spectrum,
    plot_tempering,
    plot_weights,
)
from pymc_spectral.result.reweighting import reweight
from pymc_spectral.result.tables import cell_summary, summary
from pymc_spectral.step import SpectralPartitionStep

__all__ = [
    "KMeansPartition",
    "SpectralPartition",
    "SpectralPartitionStep",
    "cell_summary",
    "diagnose",
    "efficiency_ratio",
    "landmark_heuristic",
    "plot_cells",
    "plot_overview",
    "plot_partition",
    "plot_spectrum",
    "plot_tempering",
    "plot_weights",
    "recommended_landmarks",
    "reweight",
    "summary",
]
