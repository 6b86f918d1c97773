"""From tables to statistics: tables, tasks, the moments of every task, folds of them."""
