"""Images and labels as data: samples, batches, names, groups, draws."""
