"""What came out: the record of searches and evaluations as the paper's tables and figures."""
