"""Clusters: check a cluster's file before you pay for it, run the head's services, and submit searches."""
