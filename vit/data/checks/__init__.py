"""What is wrong or alike in a data set: unreadable files, copies, near-duplicates, leakage."""
