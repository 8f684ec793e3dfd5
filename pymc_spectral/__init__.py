"""Sample multimodal posteriors in PyMC, and know the weight of each mode.

The method of Basse, Pillai & Smith, a folder for each stage, in the order in which data flow:

- ``density``: the model's log density, on many unconstrained points at once.
- ``exploration``: points that cover the modes, by parallel tempering or from what the user has.
- ``partition``: from points to cells. Spectral clustering of some of them, the landmarks; segments
  without a valley of the density between them are joined; the outcome is a frozen rule.
- ``cells``: inside one cell. The log density confined to it, and what moves there: kernels, and
  jumps across what kernels do not cross.
- ``bridge``: the mass of each cell, by bridge sampling with a proposal of any shape, and its error.
- ``result``: what the user gets. Draws of equal weight, means and tables with honest errors.
- ``diagnostics``: when to believe it. What is known about a run, and the findings read from it.
- ``plots``: pictures of a result.
- ``targets``: models with exact answers, for tests, examples and benchmarks.

``step`` joins the stages and meets PyMC's contract; ``_step_options`` checks, as a whole, what a
step is asked to learn its cells from. The other modules with a leading underscore serve all
folders: ``_pymc`` (every private name of PyMC), ``_inference_data`` (InferenceData and DataTree in
and out), ``_validate``, ``_autocorrelation``, ``_row_blocks``, ``_threads`` and ``_progress``.
"""

from pymc_spectral._version import __version__ as __version__
from pymc_spectral.diagnostics.paper_rules import (
    efficiency_ratio,
    landmark_heuristic,
    recommended_landmarks,
)
from pymc_spectral.diagnostics.report import diagnose
from pymc_spectral.partition.clusterers import KMeansPartition, SpectralPartition
from pymc_spectral.plots.cells import plot_cells
from pymc_spectral.plots.overview import plot_overview
from pymc_spectral.plots.partition import plot_partition
from pymc_spectral.plots.spectrum import plot_spectrum
from pymc_spectral.plots.tempering import plot_tempering
from pymc_spectral.plots.weights import plot_weights
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
