"""Datasets: directories of Parquet, Arrow IPC or CSV files, in which nothing is to be seen before it is complete."""

from xmlpunct.engine.run.datasets.dataset import Dataset
from xmlpunct.engine.run.datasets.dataset_files import FORMATS
from xmlpunct.engine.run.datasets.shared import SharedDataset

__all__ = ["FORMATS", "Dataset", "SharedDataset"]
