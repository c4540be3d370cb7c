"""What rows add up to, one at a time: sums per task, expenses, how agents ended, what a lineage did."""
