"""ONNX: an export format"""
