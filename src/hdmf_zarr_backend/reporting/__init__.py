"""What people look at: the page of a file (`report`), its outline, its session."""
