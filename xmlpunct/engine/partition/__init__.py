"""Plans in fragments: what runs at the edge, and what is partitioned by which attributes."""
