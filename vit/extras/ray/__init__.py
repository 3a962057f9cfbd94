"""Ray: an executor of studies and predictions"""
