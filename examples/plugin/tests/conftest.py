"""The fixtures with a test for every promise."""

pytest_plugins = ["co2l.testing.fixtures"]
