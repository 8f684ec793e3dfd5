"""From points to cells: spectral clustering, joined along valleys, frozen as a rule."""
