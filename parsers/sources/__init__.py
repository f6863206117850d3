"""Who opens: discovery, containers, codecs, remote files, rolled series."""
