"""The paper's data: two public tables and a simulated network; `kinfolk.datasets` has them by name."""
