"""Datasets for Python tasks."""

from labrunner.solve.authoring.dataset import Dataset, FieldSpec, MemoryDataset, csv_dataset, json_dataset
from labrunner.solve.values.sample import Sample

__all__ = ["Dataset", "FieldSpec", "MemoryDataset", "Sample", "csv_dataset", "json_dataset"]
