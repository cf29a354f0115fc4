"""Methods for co2l, found by their entry points: nothing is imported before a space or a flag names one of them."""
