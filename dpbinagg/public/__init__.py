"""Public facts: domains, partitions, scalings, questions; nothing here sees a record."""
