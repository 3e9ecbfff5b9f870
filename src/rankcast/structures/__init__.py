"""Arrays and kernels that several families share."""
