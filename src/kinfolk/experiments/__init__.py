"""The paper's experiments: its data, its tables and figures, and diagnostics. Nothing in the core imports them."""
