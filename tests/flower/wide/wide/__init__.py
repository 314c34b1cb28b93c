"""Many columns."""
