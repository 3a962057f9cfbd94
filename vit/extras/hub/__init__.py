"""The Hugging Face hub: uploads, and exports for transformers"""
