"""Command lines completed by a shell"""
