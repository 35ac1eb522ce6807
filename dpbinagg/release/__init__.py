"""What was released: the transcript, its folder, and the replication package."""
