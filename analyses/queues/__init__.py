"""`flowdiag queues`: full queues, spent credits, and where the back pressure starts."""
