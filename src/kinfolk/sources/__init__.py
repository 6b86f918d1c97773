"""Where rows come from: files, databases, lazy and remote frames, clusters; and fits and predictions in blocks."""
