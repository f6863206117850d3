"""`flowdiag memory`: the memory and the network buffers of a Flink process."""
