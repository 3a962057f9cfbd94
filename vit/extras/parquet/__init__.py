"""Images in parquet tables, as Hugging Face data sets hold them"""
