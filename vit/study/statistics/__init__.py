"""The statistics of a study: paired tests, variance components, forecasts, crossings."""
