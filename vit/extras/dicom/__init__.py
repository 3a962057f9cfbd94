"""DICOM images, by pydicom"""
