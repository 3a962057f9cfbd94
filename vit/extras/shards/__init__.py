"""Images in shards: tar files and an index that says where each image lies, near or far."""
