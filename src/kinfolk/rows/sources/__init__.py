"""Tables where they live: files and folders, lazy and remote frames, databases."""
