"""Pages of studies, cross-validations and comparisons."""
