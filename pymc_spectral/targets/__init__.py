"""Targets whose masses, moments and evidence are known exactly.

Tests, examples and benchmarks draw on these. Each function returns a :class:`Target`, a PyMC model
together with the truth about it, and its docstring says which mistake the target would bring to
light. Points are those of the unconstrained, raveled ``model.value_vars``, the space in which the
whole package works; only ``mean`` and ``variance`` are on the scale a user sees.

References
----------
.. [1] Basse, G., Pillai, N. and Smith, A. (2016). Parallel Markov Chain Monte Carlo via Spectral
   Clustering. Proceedings of AISTATS, PMLR 51.
.. [2] Kou, S. C., Zhou, Q. and Wong, W. H. (2006). Equi-energy sampler with applications in
   statistical inference and statistical mechanics. The Annals of Statistics 34(4), 1581-1619.
   https://doi.org/10.1214/009053606000000515
"""

from pymc_spectral.targets.bounded import arcs, docs_pair
from pymc_spectral.targets.label_switching import LABELS_DATA, labels, labels_quadrature
from pymc_spectral.targets.mixtures import crossing, normal, pair1d, paper2d, ten_d, twenty
from pymc_spectral.targets.target import Target

__all__ = [
    "LABELS_DATA",
    "Target",
    "arcs",
    "crossing",
    "docs_pair",
    "labels",
    "labels_quadrature",
    "normal",
    "pair1d",
    "paper2d",
    "ten_d",
    "twenty",
]
