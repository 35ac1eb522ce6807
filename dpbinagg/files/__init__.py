"""Release folders: what is written, how it is checked, and what a replicator needs."""
