"""What people look at: pictures of what a model makes."""
