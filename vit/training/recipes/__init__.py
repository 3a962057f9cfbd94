"""Recipes: every option of a training, and its plain values in YAML"""
