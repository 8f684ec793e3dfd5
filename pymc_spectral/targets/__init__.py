"""Targets whose masses, moments and evidence are known exactly.

Tests, examples and benchmarks draw on these. Each function returns a :class:`Target`, a PyMC model
together with the truth about it, and its docstring says which mistake the target would bring to
light. Points are those of the unconstrained, raveled ``model.value_vars``, the space in which the
whole package works; only ``mean`` and ``variance`` are on the scale a user sees. Where a model has
several free variables, these are about the one named by ``variable``.

References
----------
.. [1] Basse, G., Pillai, N. and Smith, A. (2016). Parallel Markov Chain Monte Carlo via Spectral
   Clustering. Proceedings of AISTATS, PMLR 51.
.. [2] Kou, S. C., Zhou, Q. and Wong, W. H. (2006). Equi-energy sampler with applications in
   statistical inference and statistical mechanics. The Annals of Statistics 34(4), 1581-1619.
   https://doi.org/10.1214/009053606000000515
.. [3] Postman, M., Huchra, J. P. and Geller, M. J. (1986). Probes of large-scale structure in the
   Corona Borealis region. The Astronomical Journal 92, 1238-1247. https://doi.org/10.1086/114257
.. [4] Roeder, K. (1990). Density estimation with confidence sets exemplified by superclusters and
   voids in the galaxies. Journal of the American Statistical Association 85(411), 617-624.
   https://doi.org/10.1080/01621459.1990.10474918
"""

from pymc_spectral.targets.bent import bananas, rings
from pymc_spectral.targets.bounded import arcs, docs_pair
from pymc_spectral.targets.galaxy_mixture import GALAXIES_DATA, galaxies
from pymc_spectral.targets.heavy_tails import tails
from pymc_spectral.targets.label_switching import LABELS_DATA, labels, labels_quadrature
from pymc_spectral.targets.mixtures import crossing, normal, pair1d, paper2d, ten_d, twenty, wide
from pymc_spectral.targets.nuisance import signs
from pymc_spectral.targets.period_aliases import aliases
from pymc_spectral.targets.target import Target

__all__ = [
    "GALAXIES_DATA",
    "LABELS_DATA",
    "Target",
    "aliases",
    "arcs",
    "bananas",
    "crossing",
    "docs_pair",
    "galaxies",
    "labels",
    "labels_quadrature",
    "normal",
    "pair1d",
    "paper2d",
    "rings",
    "signs",
    "tails",
    "ten_d",
    "twenty",
    "wide",
]
