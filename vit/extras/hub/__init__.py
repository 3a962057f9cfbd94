"""The Hugging Face hub: data sets from their parquet files, uploads, and exports for transformers"""
