"""The terminal views: one file per topic, simulations too."""
