"""Which settings to try: spaces, plans, and the search itself."""
