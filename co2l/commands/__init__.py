"""The commands that run nothing: they look after studies, and look up what there is."""
