"""Synthetic tables: post-processing of a release, free and repeatable."""
