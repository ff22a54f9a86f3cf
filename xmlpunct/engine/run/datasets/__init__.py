"""Datasets: directories of Parquet, Arrow IPC or CSV files, whose files become visible when they are complete."""

from xmlpunct.engine.run.datasets.dataset import Dataset
from xmlpunct.engine.run.datasets.dataset_files import FORMATS

__all__ = ["FORMATS", "Dataset"]
