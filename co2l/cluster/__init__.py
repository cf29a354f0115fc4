"""Clusters: what runs on a head beside Ray, and a check of the files that describe a cluster before money is spent."""
