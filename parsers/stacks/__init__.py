"""Thread dumps: reading them in every format, and what each thread is doing."""
