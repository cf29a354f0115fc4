"""Results: the record of searches and evaluations, shown as the paper's tables and figures."""
