"""Claims of speed and memory, and the commands that repeat them."""
