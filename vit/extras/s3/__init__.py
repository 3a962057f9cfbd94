"""Files at https://, s3:// and gs://, by fsspec, with a cache on this machine"""
