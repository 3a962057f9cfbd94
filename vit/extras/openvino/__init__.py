"""OpenVINO: an export format"""
